"""The assistant: it answers in words by the tools of `/mcp`, and asks before it changes anything."""
