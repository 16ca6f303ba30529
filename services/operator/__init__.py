"""The operator's actions at the command line, straight on the database, and the checks before a start."""
