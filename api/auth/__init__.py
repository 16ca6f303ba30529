"""Credentials: from the headers of a request to its caller."""
