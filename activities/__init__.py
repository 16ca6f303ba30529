"""All that a workflow does to the world, one module a noun."""
