"""Outgoing HTTP: one client, behind a guard, within limits."""
