"""Lookups of domains, one module a source."""
