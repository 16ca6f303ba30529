"""The contact address that sources of public bodies ask for in requests."""

from __future__ import annotations

from outbound.client import USER_AGENT
from providers.sources.base import Context


def user_agent(context: Context) -> dict[str, str]:
    """Return the header that names this software and the operator's address, if set as the key."""
    return {"user-agent": f"{USER_AGENT} ({context.key})" if context.key else USER_AGENT}
