"""Workflows to begin with, a JSON document each: the name of the file is the id of the template."""
