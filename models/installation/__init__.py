"""The installation itself: its processes, its schema, its root key."""
