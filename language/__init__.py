"""The language of users' workflows: steps, triggers, templates and expressions. Pure."""
