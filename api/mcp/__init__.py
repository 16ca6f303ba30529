"""The MCP server at /mcp: the service's routes as tools for agents.

A tool makes the requests that a person would make (`calling.py`), so that credentials, scopes, limits,
credits, idempotency and the audit log are those of the routes; it prunes what they answer (`answers.py`).
"""
