"""What an operator does at the command line, straight on the database, and what is checked before a start."""
