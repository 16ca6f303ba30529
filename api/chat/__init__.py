"""The tools of the assistant: those of `/mcp`, called in the name of the person who chats."""
