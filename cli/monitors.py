"""`vedette monitors`: what is looked up again and again, and what has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from cli.connecting import connected_settings, database_url
from cli.errors import BadInput, naming
from cli.groups import new_group
from cli.printing import Json, columns, print_data, printable

if TYPE_CHECKING:
    from embedded.monitors import AccountMonitors
    from models.monitors.monitors import MonitorView, Plan
    from models.monitors.results import Result
    from models.monitors.runs import MonitorRunView

T = TypeVar("T")

commands = new_group("Monitors: what is looked up again and again, and what has changed.")

Type = Literal["email", "phone", "domain", "ip", "company", "darkweb"]
Owner = Annotated[str, typer.Option("--account", metavar="EMAIL", help="The e-mail of the account.")]
MonitorId = Annotated[str, typer.Argument(metavar="ID")]
FIRST_ACCOUNT = "admin@vedette.internal"

_SHOWN = {
    "account": "--account", "email": "--account", "too_many_monitors": "--account", "name": "NAME",
    "cron": "--cron", "timezone": "--timezone", "targets": "--targets", "monitor_full": "--targets",
    "data_source_ref": "--list", "not_found": "ID", "run": "RUN", "run_in_progress": "ID",
    "no_targets": "ID", "list_deleted": "ID",
}  # fmt: skip
# In a company's name, and in what is looked for on the dark web, a comma stands for itself.
_WITH_COMMAS = {"company", "darkweb"}
_LONGEST, _ITEMS = 60, 5


@commands.command("create")
def monitors_create(
    name: Annotated[str | None, typer.Argument(help="Its first target by default.")] = None,
    type: Annotated[Type, typer.Option(help="What its targets are.")] = "email",
    targets: Annotated[
        list[str] | None, typer.Option(help="Repeatable; separated by commas but for company and darkweb.")
    ] = None,
    targets_file: Annotated[
        typer.FileBinaryRead | None, typer.Option(help="One target a line; - reads standard input.")
    ] = None,
    list_id: Annotated[str | None, typer.Option("--list", metavar="ID", help="A list to watch.")] = None,
    hourly: Annotated[bool, typer.Option("--hourly")] = False,
    daily: Annotated[bool, typer.Option("--daily")] = False,
    weekly: Annotated[bool, typer.Option("--weekly")] = False,
    biweekly: Annotated[bool, typer.Option("--biweekly", help="Every two weeks.")] = False,
    monthly: Annotated[bool, typer.Option("--monthly", help="The default.")] = False,
    quarterly: Annotated[bool, typer.Option("--quarterly")] = False,
    cron: Annotated[str | None, typer.Option(help="Five fields, as in '0 9 * * MON-FRI'.")] = None,
    timezone: Annotated[str, typer.Option(help="In which these are read, as in Europe/Berlin.")] = "UTC",
    account: Owner = FIRST_ACCOUNT,
    as_json: Json = False,
) -> None:
    """Create a monitor."""
    frequencies = {
        "hourly": hourly, "daily": daily, "weekly": weekly, "biweekly": biweekly, "monthly": monthly,
        "quarterly": quarterly,
    }  # fmt: skip
    texts = _targets(type, targets or [], targets_file)
    if bool(texts) == bool(list_id):
        raise BadInput("--targets: Give targets, or a list to watch by --list.")
    plan = _plan(
        name or (texts[0][:200] if texts else f"List {list_id}"), frequencies, cron, timezone, list_id
    )
    _print_monitor(_done(account, lambda monitors: monitors.create(type, plan, texts)), as_json)


@commands.command("list")
def monitors_list(account: Owner = FIRST_ACCOUNT, as_json: Json = False) -> None:
    """List the monitors of an account, newest first."""
    found = _done(account, lambda monitors: monitors.list_all())
    rows = [
        [str(one.id), printable(one.name), one.monitor_type, f"{one.target_count:,}", _when(one), _next(one)]
        for one in found
    ]
    text = columns([["id", "name", "type", "targets", "when", "next run"], *rows])
    data = {"monitors": [one.model_dump(mode="json") for one in found], "total": len(found)}
    print_data(data, text if found else "There are no monitors.", as_json)


@commands.command("show")
def monitors_show(monitor_id: MonitorId, account: Owner = FIRST_ACCOUNT, as_json: Json = False) -> None:
    """Show a monitor."""
    _print_monitor(_done(account, lambda monitors: monitors.get(monitor_id)), as_json)


@commands.command("run")
def monitors_run(
    monitor_id: MonitorId,
    wait: Annotated[
        bool, typer.Option("--wait", help="For its end; exits with 1 if it was not completed.")
    ] = False,
    account: Owner = FIRST_ACCOUNT,
    as_json: Json = False,
) -> None:
    """Look all targets of a monitor up now."""

    async def run(monitors: AccountMonitors) -> MonitorRunView:
        started = await monitors.start(monitor_id)
        return await monitors.ended(started) if wait else started

    found = _done(account, run)
    print_data(found.model_dump(mode="json"), _told(found), as_json)
    raise typer.Exit(1 if wait and found.status != "completed" else 0)


@commands.command("pause")
def monitors_pause(monitor_id: MonitorId, account: Owner = FIRST_ACCOUNT, as_json: Json = False) -> None:
    """Let a monitor no longer run by itself."""
    _print_monitor(_done(account, lambda monitors: monitors.pause(monitor_id)), as_json)


@commands.command("resume")
def monitors_resume(monitor_id: MonitorId, account: Owner = FIRST_ACCOUNT, as_json: Json = False) -> None:
    """Let a monitor run by itself again."""
    _print_monitor(_done(account, lambda monitors: monitors.resume(monitor_id)), as_json)


@commands.command("delete")
def monitors_delete(monitor_id: MonitorId, account: Owner = FIRST_ACCOUNT, as_json: Json = False) -> None:
    """Delete a monitor, with its runs and what they have found."""
    _done(account, lambda monitors: monitors.delete(monitor_id))
    print_data({"status": "deleted"}, f"The monitor {monitor_id} is deleted.", as_json)


@commands.command("results")
def monitors_results(
    monitor_id: MonitorId,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The last run that has results by default.")
    ] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Only of targets that have changed.")] = False,
    account: Owner = FIRST_ACCOUNT,
    as_json: Json = False,
) -> None:
    """Show what a run has found. Programs get all of the answers, people what has changed."""

    async def show(monitors: AccountMonitors) -> None:
        run = await monitors.find_run(monitor_id, run_id)
        found = monitors.results(run, changes_only=changes)
        if as_json:
            await _print_array(found)
            return
        rows = [row async for result in found for row in _rows(result)]
        print(columns([["target", "field", "change", "since"], *rows]) if rows else "Nothing has changed.")

    _done(account, show)


def _done(account: str, act: Callable[[AccountMonitors], Awaitable[T]]) -> T:
    """Do something with the monitors of an account.

    As with keys and credits, that is done on the database: an operator has no key of the account, and it goes
    where no API runs.
    """
    from embedded.monitors import AccountMonitors

    settings = connected_settings()

    async def run() -> T:
        async with AccountMonitors.opened(settings, database_url(settings), account) as monitors:
            return await act(monitors)

    with naming(_SHOWN):
        return asyncio.run(run())


def _targets(type: Type, options: list[str], file: typer.FileBinaryRead | None) -> list[str]:
    texts = options if type in _WITH_COMMAS else [text for one in options for text in one.split(",")]
    try:
        texts += file.read().decode().splitlines() if file else []
    except UnicodeDecodeError:
        raise BadInput("--targets-file: This is not UTF-8 text.") from None
    return [text.strip() for text in texts if text.strip()]


def _plan(
    name: str, frequencies: Mapping[str, bool], cron: str | None, timezone: str, list_id: str | None
) -> Plan:
    from models.identifiers import parse_id
    from models.monitors.monitors import Plan

    chosen = [frequency for frequency, given in frequencies.items() if given]
    if len(chosen) + (cron is not None) > 1:
        raise BadInput(f"--cron: Give one of --{', --'.join(frequencies)} and --cron.")
    frequency = None if cron is not None else chosen[0] if chosen else "monthly"
    parsed = None if list_id is None else parse_id(list_id)
    if list_id is not None and parsed is None:
        raise BadInput("--list: The account has no such list.")
    return Plan(name, frequency, cron, timezone, list_id=parsed)


def _print_monitor(monitor: MonitorView, as_json: bool) -> None:
    fields = monitor.model_dump(mode="json")
    shown = [[name, printable(value)] for name, value in fields.items() if value not in (None, [], {})]
    print_data(fields, columns(shown), as_json)


def _when(monitor: MonitorView) -> str:
    when = monitor.frequency or monitor.cron or ""
    return when if monitor.timezone == "UTC" else f"{when} {monitor.timezone}"


def _next(monitor: MonitorView) -> str:
    return f"{monitor.next_run_at:%Y-%m-%d %H:%M}" if monitor.next_run_at else monitor.status


def _told(run: MonitorRunView) -> str:
    counts = f"{run.processed_records:,} of {run.total_records:,} targets"
    if run.completed_at is None:
        return f"The run {run.id} is {run.status}: {counts}."
    reason = f" {run.error['message']}" if run.error else ""
    return (
        f"The run {run.id} is {run.status}: {counts}, {run.changes_detected:,} changed,"
        f" {run.failed_records:,} failed, {run.credits_used:,} credits.{reason}"
    )


async def _print_array(found: AsyncIterator[Result]) -> None:
    """Print JSON result by result, for a run may have found more than fits in memory."""
    import orjson

    before = "["
    async for result in found:
        print(before, orjson.dumps(result.shown()).decode(), sep="\n", end="")
        before = ","
    print("\n]" if before == "," else "[]")


def _rows(result: Result) -> list[list[str]]:
    """The lines of a result in a table: one a change, or one that says that there is none."""
    target = printable(result.target)
    if result.error is not None:
        return [[target, "", f"failed: {printable(json.loads(result.error)['message'])}", ""]]
    if result.changes is None:
        return [[target, "", "unchanged", ""]]
    details: dict[str, Any] = json.loads(result.details or "{}")
    return [
        [target, field, _change(change, details[field]), details[field]["since"]["after"][:16]]
        for field, change in json.loads(result.changes).items()
    ]


def _change(change: Mapping[str, Any], detail: Mapping[str, Any]) -> str:
    """`old → new`, or of a list its items that came (+), went (-) and changed."""
    if "added" not in detail:
        return f"{_short(change['old'])} → {_short(change['new'])}"
    told = [f"+ {_short(item)}" for item in detail["added"]]
    told += [f"- {_short(item)}" for item in detail["removed"]]
    told += [f"{_short(pair['old'])} → {_short(pair['new'])}" for pair in detail["changed"]]
    more = [f"and {len(told) - _ITEMS:,} more"] if len(told) > _ITEMS else []
    return ", ".join(told[:_ITEMS] + more)


def _short(value: Any) -> str:
    text = printable(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
