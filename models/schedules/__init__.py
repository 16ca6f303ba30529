"""Schedules: calendars, and when what has one is due."""
