"""Sources about IP addresses."""
