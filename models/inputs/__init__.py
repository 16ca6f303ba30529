"""Inputs of runs, and the JSON Schemas that they are checked against."""
