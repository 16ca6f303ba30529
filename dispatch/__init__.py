"""The claim loops of a worker, which claim waiting work and start it: one module for each kind of work."""
