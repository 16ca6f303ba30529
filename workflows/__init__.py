"""The durable part: Temporal workflows, and the pure language that they run."""
