"""The connection of this project's processes to Temporal."""
