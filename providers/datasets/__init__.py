"""Lookup data on this machine: its origins, its packing and its reading."""
