"""The messages after a start: the parts that work, the first account, a `curl` command."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from embedded.first_account import CredentialsError, credentials_file, header_file, refresh_credentials
from embedded.report import Report
from settings import Settings

_WAITED_FOR = {"temporal": "Temporal", "workers": "the worker"}


def announce_serving(
    report: Report,
    settings: Settings,
    seconds: float,
    missing: Collection[str],
    *,
    created: bool,
    link: str | None,
) -> None:
    """Report that requests are answered, what workflows still wait for, and a first command to try.

    Args:
        report: the output.
        settings: with the real data folder and port.
        seconds: how long it took.
        missing: the parts that `/readyz` reports as missing.
        created: whether this start made the first account: its key is then shown once on a terminal.
        link: signs a browser in once; None where nobody reads the output.
    """
    waited_for = " and ".join(text for part, text in _WAITED_FOR.items() if part in missing)
    rest = f"; workflows wait for {waited_for}" if waited_for else ""
    url = settings.address
    report.say("vedette", f"serving lookups and accepting events at {url} ({seconds:.1f} s){rest}")
    header = _announce_account(report, settings, show_key=created and report.on_terminal)
    report.say("dashboard", f"{url}/app")
    if link is not None:
        report.say("", f"signed in at once, within a minute: {link}")
        report.say("", "`vedette sign-in` prints another such link")
    report.say("try", f"curl -s {url}/api/agent/ip -H {shlex.quote(header)} \\")
    report.say("", "-H 'Content-Type: application/json' -d '{\"ip\": \"8.8.8.8\"}'")


def announce_unknown_terms(report: Report, settings: Settings) -> None:
    """Report the sources that a commercial service asks although their terms are unclear."""
    if not settings.commercial:
        return
    from providers.lookup.source_status import name_unknown
    from providers.registry import KINDS

    if unknown := name_unknown(KINDS, settings):
        report.say(
            "sources",
            f"the terms of these do not say whether commercial use is allowed: {', '.join(unknown)}",
        )


def announce_missing_pages(report: Report, settings: Settings) -> None:
    """Report that the pages of Temporal were asked for, but that the server is not the built-in one."""
    if settings.temporal_ui is True and settings.temporal_address is not None:
        report.say(
            "temporal",
            "VEDETTE_TEMPORAL_UI=1 shows the pages of the built-in server only. TEMPORAL_ADDRESS names"
            " another: set VEDETTE_TEMPORAL_UI to the address of its pages, for links to them, or to 0",
        )


def _announce_account(report: Report, settings: Settings, *, show_key: bool) -> str:
    """Report the file of the first account's credentials; return curl's arguments for its header."""
    file, header = credentials_file(settings.data), header_file(settings.data)
    try:
        account = refresh_credentials(settings)
    except CredentialsError as error:
        report.say("account", f"warning: {error}; `vedette keys create` makes another key")
        account = None
    else:
        if account is not None:
            report.say("account", f"e-mail, password and key of the first account are in {file}")
    if account is not None and show_key:
        report.say("account", f"{account.email}, key {account.api_key}")
        return f"Authorization: Bearer {account.api_key}"
    return f"@{header}" if header.exists() else "Authorization: Bearer <key>"
