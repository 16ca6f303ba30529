"""URLs in a form without secrets."""

from __future__ import annotations

from urllib.parse import urlsplit


def without_credentials(url: str) -> str:
    """Return a URL without user, password, query, fragment and a last slash, safe to show and store."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
