"""Statistics of accounts: what happened in each minute, hour and day."""
