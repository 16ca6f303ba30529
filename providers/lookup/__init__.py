"""The pipeline of a lookup: from a query to its sources, and from their answers to one result."""
