"""`vedette monitors`: targets that are looked up repeatedly, and their changes."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from typing import Annotated, Any, NoReturn

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput, Refused
from cli.groups import new_group
from cli.printing import Json, moment, print_data, print_record, print_table, printable, short
from cli.target_files import SHOWN, Column, CsvFile, describe_import, send_file
from cli.targets import Targets, TargetsFile, Type, naming_targets, read_targets
from cli.workflow_lookup import find_list, find_monitor

commands = new_group("Monitors: what is looked up again and again, and what has changed.")

Named = Annotated[str, typer.Argument(metavar="ID|NAME", help="A monitor.")]

_SHOWN = {
    "too_many_monitors": "--targets", "name": "NAME", "cron": "--cron", "timezone": "--timezone",
    "targets": "--targets", "monitor_full": "--targets", "data_source_ref": "--list", "not_found": "ID|NAME",
    "run_in_progress": "ID|NAME", "no_targets": "ID|NAME", "list_deleted": "ID|NAME",
    "tracked_fields": "--tracked-fields",
}  # fmt: skip
_ITEMS = 5
_PAGE = 100
_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.2, 2.0


@commands.command("create")
def monitors_create(
    name: Annotated[str | None, typer.Argument(help="Its first target by default.")] = None,
    type: Annotated[Type, typer.Option(help="The type of its targets.")] = "email",
    targets: Targets = None,
    targets_file: TargetsFile = None,
    watched: Annotated[str | None, typer.Option("--list", metavar="ID|NAME", help="A list to watch.")] = None,
    tracked_fields: Annotated[
        str | None,
        typer.Option(help="Report only changes of these fields, separated by commas. All by default."),
    ] = None,
    hourly: Annotated[bool, typer.Option("--hourly")] = False,
    daily: Annotated[bool, typer.Option("--daily")] = False,
    weekly: Annotated[bool, typer.Option("--weekly")] = False,
    biweekly: Annotated[bool, typer.Option("--biweekly", help="Every two weeks.")] = False,
    monthly: Annotated[bool, typer.Option("--monthly", help="The default.")] = False,
    quarterly: Annotated[bool, typer.Option("--quarterly")] = False,
    cron: Annotated[str | None, typer.Option(help="Five fields, such as '0 9 * * MON-FRI'.")] = None,
    timezone: Annotated[str, typer.Option(help="The time zone of these, such as Europe/Berlin.")] = "UTC",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Create nothing, and show what its runs would wait for.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a monitor."""
    frequencies = {
        "hourly": hourly, "daily": daily, "weekly": weekly, "biweekly": biweekly, "monthly": monthly,
        "quarterly": quarterly,
    }  # fmt: skip
    texts = read_targets(type, targets or [], targets_file)
    if bool(texts) == bool(watched):
        raise BadInput("--targets: Give targets, or a list to watch by --list.")
    body: dict[str, Any] = {"monitor_type": type, "timezone": timezone, **_when_chosen(frequencies, cron)}
    if tracked_fields is not None:
        body["tracked_fields"] = [field.strip() for field in tracked_fields.split(",")]
    with connect_service(_SHOWN) as service, naming_targets(texts):
        if watched:
            found = find_list(service, watched, "--list")
            body |= {"name": found["name"], "data_source_type": "list", "data_source_ref": found["id"]}
        else:
            body |= {"name": texts[0][:200], "targets": texts}
        body |= {"name": name} if name else {}
        if dry_run:
            _print_validity(service.post("/api/monitors/validate", body), as_json)
        print_record(service.post("/api/monitors", body), as_json)


@commands.command("list")
def monitors_list(as_json: Json = False) -> None:
    """List the monitors of the account, newest first."""
    with connect_service(_SHOWN) as service:
        found = service.get("/api/monitors")
    if as_json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        [one["id"], printable(one["name"]), one["monitor_type"], f"{one['target_count']:,}", _when(one),
         moment(one["next_run_at"]) if one["next_run_at"] else one["status"]]
        for one in found["monitors"]
    ]  # fmt: skip
    print_table(["id", "name", "type", "targets", "when", "next run"], rows, "There are no monitors.")


@commands.command("show")
def monitors_show(monitor: Named, as_json: Json = False) -> None:
    """Show a monitor, and which of its sources answer."""
    with connect_service(_SHOWN) as service:
        found = service.get(_path(service, monitor))
    if as_json:
        print(json.dumps(found, indent=2))
        return
    sources = found.pop("sources")
    print_record(found, as_json)
    rows = [
        [one["source"], moment(one["heard_at"]), moment(one["silent_since"]), one["why"] or ""]
        for one in sources
    ]
    print_table(["source", "last heard", "silent since", "why"], rows)


@commands.command("run")
def monitors_run(
    monitor: Named,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; exits with 1 if it was not completed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look all targets of a monitor up now."""
    with connect_service(_SHOWN) as service:
        path = _path(service, monitor)
        run_path = f"{path}/runs/{service.post(f'{path}/run')['run_id']}"
        found, pause = service.get(run_path), _LOOK_SECONDS
        while wait and found["completed_at"] is None:
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_LOOK_SECONDS)
            found = service.get(run_path)
    print_data(found, _describe_run(found), as_json)
    raise typer.Exit(1 if wait and found["status"] != "completed" else 0)


@commands.command("import")
def monitors_import(monitor: Named, file: CsvFile, column: Column = None, as_json: Json = False) -> None:
    """Add the targets of a CSV file to a monitor. Rows without a target are listed, and left out."""
    with connect_service({**_SHOWN, **SHOWN}) as service:
        done = send_file(service, _path(service, monitor), file, column)
    print_data(done, describe_import(done), as_json)


@commands.command("pause")
def monitors_pause(monitor: Named, as_json: Json = False) -> None:
    """Stop a monitor's runs by its calendar."""
    with connect_service(_SHOWN) as service:
        print_record(service.post(f"{_path(service, monitor)}/pause"), as_json)


@commands.command("resume")
def monitors_resume(monitor: Named, as_json: Json = False) -> None:
    """Restart a monitor's runs by its calendar."""
    with connect_service(_SHOWN) as service:
        print_record(service.post(f"{_path(service, monitor)}/resume"), as_json)


@commands.command("seen")
def monitors_seen(
    monitor: Named,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The last run that has results by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Mark the changes of a monitor's ended runs as seen, up to a run."""
    with connect_service(_SHOWN) as service:
        path = _path(service, monitor)
        found = service.post(f"{path}/runs/{part(run_id or _last_run(service, path))}/seen")
    print_record(found, as_json)


@commands.command("delete")
def monitors_delete(monitor: Named, as_json: Json = False) -> None:
    """Delete a monitor, with its runs and their results."""
    with connect_service(_SHOWN) as service:
        deleted = service.call("DELETE", _path(service, monitor))
    print_data(deleted, f"The monitor {printable(monitor)} is deleted.", as_json)


@commands.command("results")
def monitors_results(
    monitor: Named,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The last run that has results by default.")
    ] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Only targets that have changed.")] = False,
    as_json: Json = False,
) -> None:
    """Show the results of a run: all answers for programs, the changes for people."""
    with connect_service(_SHOWN) as service:
        path = _path(service, monitor)
        found = _results(service, path, run_id or _last_run(service, path), changes)
        if as_json:
            _print_array(found)
            return
        rows = [row for result in found for row in _rows(result)]
    print_table(["target", "field", "change", "since"], rows, "Nothing has changed.")


def _print_validity(found: dict[str, Any], as_json: bool) -> NoReturn:
    """Print the errors and doubts of a monitor; exit with 1 if there is an error."""
    lines = [f"{one['pointer'] or '/'}: {one['message']}" for one in found["errors"]]
    lines += [] if lines else ["The monitor is valid."]
    lines += [f"warning: {one['message']}" for one in found["warnings"]]
    print_data(found, "\n".join(map(printable, lines)), as_json)
    raise typer.Exit(0 if found["valid"] else 1)


def _path(service: Service, monitor: str) -> str:
    return f"/api/monitors/{part(str(find_monitor(service, monitor, 'ID|NAME')['id']))}"


def _when_chosen(frequencies: Mapping[str, bool], cron: str | None) -> dict[str, str]:
    chosen = [frequency for frequency, given in frequencies.items() if given]
    if len(chosen) + (cron is not None) > 1:
        raise BadInput(f"--cron: Give one of --{', --'.join(frequencies)} and --cron.")
    if cron is not None:
        return {"cron": cron}
    return {"frequency": chosen[0] if chosen else "monthly"}


def _when(monitor: Mapping[str, Any]) -> str:
    when = monitor["frequency"] or monitor["cron"] or ""
    return when if monitor["timezone"] == "UTC" else f"{when} {monitor['timezone']}"


def _describe_run(run: Mapping[str, Any]) -> str:
    counts = f"{run['processed_records']:,} of {run['total_records']:,} targets"
    if run["completed_at"] is None:
        waits = f" It waits for its sources until {moment(run['resumes_at'])}." if run["resumes_at"] else ""
        return f"The run {run['id']} is {run['status']}: {counts}.{waits}"
    partial = f" {run['targets_partial']:,} partial," if run["targets_partial"] else ""
    reason = f" {printable(run['error']['message'])}" if run["error"] else ""
    return (
        f"The run {run['id']} is {run['status']}: {counts}, {run['changes_detected']:,} changed,"
        f" {run['failed_records']:,} failed,{partial} {run['credits_used']:,} credits.{reason}"
    )


def _last_run(service: Service, path: str) -> str:
    """Return the last run that has results."""
    offset, total = 0, 1
    while offset < total:
        page = service.get(f"{path}/runs", limit=_PAGE, offset=offset)
        for run in page["runs"]:
            if run["processed_records"]:
                return run["id"]
        offset, total = offset + _PAGE, page["total"]
    raise BadInput("RUN: No run of the monitor has results yet.")


def _results(
    service: Service, monitor_path: str, run_id: str, changes_only: bool
) -> Generator[dict[str, Any]]:
    """Yield the results of a run page by page, because there may be very many."""
    path, offset, total = f"{monitor_path}/runs/{part(run_id)}/results", 0, 1
    while offset < total:
        try:
            query = {"changes_only": changes_only, "limit": _PAGE, "offset": offset}
            page = service.get(path, **query)
        except Refused as refused:
            if refused.code != "not_found":
                raise
            raise BadInput("RUN: The monitor has no such run.") from None
        yield from page["results"]
        offset, total = offset + _PAGE, page["total"]


def _print_array(found: Generator[dict[str, Any]]) -> None:
    """Print JSON result by result, because the results may not fit in memory."""
    before = "["
    for result in found:
        print(before, json.dumps(result), sep="\n", end="")
        before = ","
    print("\n]" if before == "," else "[]")


def _rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of a result in a table: one for each change, or one for no change."""
    target = printable(result["target"])
    if result["error"] is not None:
        return [[target, "", f"failed: {printable(result['error']['message'])}", ""]]
    if result["changes"] is None:
        return [[target, "", "unchanged", ""]]
    details: Mapping[str, Any] = result["change_details"] or {}
    return [
        [target, printable(field), _change(change, details[field]), details[field]["since"]["after"][:16]]
        for field, change in result["changes"].items()
    ]


def _change(change: Mapping[str, Any], detail: Mapping[str, Any]) -> str:
    """Return `old → new`, or for a list the items added (+), removed (-) and changed."""
    if "added" not in detail:
        return f"{short(change['old'])} → {short(change['new'])}"
    told = [f"+ {short(item)}" for item in detail["added"]]
    told += [f"- {short(item)}" for item in detail["removed"]]
    told += [f"{short(pair['old'])} → {short(pair['new'])}" for pair in detail["changed"]]
    more = [f"and {len(told) - _ITEMS:,} more"] if len(told) > _ITEMS else []
    return ", ".join(told[:_ITEMS] + more)
