"""What is wrong with a definition, all at once."""
