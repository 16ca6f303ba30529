"""Accounts: logins, sessions, API keys, secrets, and suppressed persons."""
