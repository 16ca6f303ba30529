"""Schedules: calendars, and the times at which rows with a schedule are due."""
