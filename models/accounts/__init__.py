"""Accounts: who signs in and how, their keys and secrets, and who is never looked up."""
