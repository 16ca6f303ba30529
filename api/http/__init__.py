"""The machinery of HTTP: what every route has in common."""
