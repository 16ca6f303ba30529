"""How sources of public bodies want to be asked: with an address at which the asker can be reached."""

from __future__ import annotations

from outbound.client import USER_AGENT
from providers.sources.base import Context


def user_agent(context: Context) -> dict[str, str]:
    """The header that names this software and, if the operator has set it as the key, their address."""
    return {"user-agent": f"{USER_AGENT} ({context.key})" if context.key else USER_AGENT}
