"""What a workflow of a user may say: its steps, triggers, templates and expressions. Pure."""
