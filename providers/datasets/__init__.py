"""Lookup data on this machine: where it comes from, how it is packed and read."""
