"""The validation of definitions, which reports all errors at once."""
