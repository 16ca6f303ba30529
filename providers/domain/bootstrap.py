"""The RDAP server in charge of each top-level domain, from IANA's bootstrap file (RFC 9224)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from providers.sources.base import Context, SourceError, json_answer

IANA = "https://data.iana.org/rdap"
_SECONDS = 86400.0


@dataclass
class _Known:
    """TLD → server, and until when (monotonic) that is valid."""

    servers: dict[str, str] = field(default_factory=dict[str, str])
    until: float = 0.0


_known: dict[str, _Known] = {}


async def server(tld: str, context: Context, base_url: str = IANA) -> str | None:
    """Return the RDAP server for a TLD, without a last slash; None if its registry has none.

    The file is fetched once a day.

    Args:
        tld: an A-label.
        context: of the calling source; its client fetches the file.
        base_url: the location of `dns.json`.

    Raises:
        SourceError: if the file is missing or invalid.
        OutboundError: if it cannot be fetched.
    """
    known = _known.setdefault(base_url, _Known())
    if time.monotonic() >= known.until:
        response = await context.client.get(f"{base_url}/dns.json", timeout=context.timeout / 2)
        known.servers = servers(json_answer(response))
        known.until = time.monotonic() + _SECONDS
    return known.servers.get(tld)


def servers(told: Any) -> dict[str, str]:
    """Read a bootstrap file.

    Raises:
        SourceError: `bad_response`, if it is no bootstrap file.
    """
    found: dict[str, str] = {}
    try:
        for tlds, urls in told["services"]:
            secure = [url for url in urls if url.startswith("https://")]
            url: str = (secure or urls)[0].rstrip("/")
            found |= {tld.lower(): url for tld in tlds}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise SourceError("bad_response", "bootstrap") from None
    return found
