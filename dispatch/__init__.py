"""The loops of a worker that claim what waits, and have it begun: one module a kind of work."""
