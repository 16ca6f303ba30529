"""Where lookups are asked for."""

from __future__ import annotations

PATHS: dict[str, tuple[str, dict[str, str]]] = {
    "ip": ("ip", {"ip": "10.0.0.1"}),
    "breach": ("breaches", {"email": "ada@example.com"}),
    "email": ("lookup", {"email": "ada@example.com"}),
    "validate": ("validate", {"email": "ada@example"}),
    "phone": ("phone", {"phone": "+14155552671"}),
    "domain": ("domain", {"domain": "example.com"}),
    "username": ("username", {"username": "octocat"}),
    "websearch": ("websearch", {"query": "Ada Lovelace"}),
    "company": ("company", {"company": "Example Bank plc"}),
    "darkweb": ("darkweb", {"query": "example.com"}),
}
"""By kind: the name of its path for agents, and a body."""
