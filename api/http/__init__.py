"""The machinery of HTTP that all routes share."""
