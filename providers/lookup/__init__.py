"""The pipeline of a lookup: from a query to sources, and from their answers to one."""
