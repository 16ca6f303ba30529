"""Searches of the web, one module a source."""
