"""`/.well-known/security.txt`: where weaknesses of this installation are reported (RFC 9116)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

_DAYS = 90  # it is made anew at each request; the RFC recommends less than a year


def security_txt(contact: str, address: str, today: date) -> str:
    """Return the text. The RFC allows no address of its own that is not https; then it is left out.

    Args:
        contact: a URI that begins with mailto:, https: or tel:.
        address: the root address of the service.
        today: the day from which on it holds.
    """
    expires = datetime.combine(today + timedelta(days=_DAYS), time(), UTC)
    lines = [f"Contact: {contact}", f"Expires: {expires:%Y-%m-%dT%H:%M:%SZ}", "Preferred-Languages: en"]
    if address.startswith("https://"):
        lines.append(f"Canonical: {address}/.well-known/security.txt")
    return "\n".join(lines) + "\n"
