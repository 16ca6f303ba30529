"""Sources for what is known about a phone number."""
