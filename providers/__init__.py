"""Lookup sources: one package a kind, one module a source."""
