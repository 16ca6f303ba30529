"""Contact lists and their targets."""
