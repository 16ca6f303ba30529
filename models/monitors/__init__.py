"""Monitors: what is looked up again and again, to tell what has changed."""
