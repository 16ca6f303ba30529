"""The durable part: Temporal workflows."""
