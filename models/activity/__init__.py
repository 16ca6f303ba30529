"""The activity of an account: the states of its newest things, and the list of what happened lately."""
