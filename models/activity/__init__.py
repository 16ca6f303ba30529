"""What happens in an account: the states of its newest things, and what happened lately."""
