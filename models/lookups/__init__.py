"""Lookups: cached answers, the state and the quotas of sources."""
