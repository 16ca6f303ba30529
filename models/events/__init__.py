"""Events: their types and data, and the runs that they start."""
