"""Sources for what is known about an IP address."""
