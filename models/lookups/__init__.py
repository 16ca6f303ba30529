"""Lookups: answers that are cached, the state and the quotas of sources."""
