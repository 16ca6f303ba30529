"""Lookups of user names, one module a source."""
