"""Monitors: targets that are looked up again and again, so that changes can be reported."""
