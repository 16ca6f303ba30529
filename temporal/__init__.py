"""How this project's processes talk to Temporal."""
