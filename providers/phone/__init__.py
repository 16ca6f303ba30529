"""Sources about phone numbers."""
