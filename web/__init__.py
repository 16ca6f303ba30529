"""The dashboard: a shell and ES modules, which browsers read as they are; docs/dashboard.md says how."""
