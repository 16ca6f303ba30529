"""The MCP server at /mcp: the service's routes as tools for agents.

A tool makes the same requests as a person (`calling.py`), so that the credentials, scopes, limits, credits,
idempotency and audit log of the routes apply; it shortens their answers (`answers.py`).
"""
