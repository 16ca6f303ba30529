"""`vedette runs`: the executions of workflows, step by step."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput
from cli.groups import new_group
from cli.printing import Json, duration, moment, print_data, print_rows, print_table, printable, short
from cli.workflow_lookup import find_workflow

commands = new_group("Runs: what workflows have done, step by step.")

Status = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
Trigger = Literal["manual", "webhook", "schedule", "file_upload", "monitor_event", "workflow", "on_failure"]
RunId = Annotated[str, typer.Argument(metavar="ID")]

_SHOWN = {
    "not_found": "ID", "from_step": "--from-step", "version": "--version", "run_not_ended": "ID",
    "nothing_to_retry": "ID", "workflow_not_active": "ID", "limit": "--limit",
    "error_code": "--error-code", "step": "--step", "since": "--since", "until": "--until",
    "q": "--value",
}  # fmt: skip
_PAGE = 100
_PATH = "/api/workflows/runs"


@commands.command("list")
def runs_list(
    workflow: Annotated[str | None, typer.Option(metavar="ID|NAME", help="Only runs of this one.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only those with this status.")] = None,
    trigger: Annotated[Trigger | None, typer.Option(help="Only those that this started.")] = None,
    error_code: Annotated[
        str | None, typer.Option(metavar="CODE", help="Only those that ended with this error.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="Only those that failed at it.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="ID", help="Only those that it started.")] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those with it at a path of `search`; a* for a beginning."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those accepted then or later.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only those accepted before.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to list.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    filters = {
        "status": status, "trigger": trigger, "error_code": error_code, "step": step,
        "parent_run_id": parent, "since": since, "until": until, "q": value,
    }  # fmt: skip
    with connect_service({**_SHOWN, "not_found": "--workflow"}) as service:
        workflow_id = find_workflow(service, workflow, "--workflow")["id"] if workflow else None
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while len(found) < limit:
            answer = service.get(
                _PATH, workflow_id=workflow_id, **filters, limit=min(limit, _PAGE), cursor=cursor
            )
            found += answer["runs"]
            if (cursor := answer["next_cursor"]) is None:
                break
    if as_json:
        print(json.dumps({"runs": found[:limit]}, indent=2))
        return
    rows = [
        [run["id"], printable(run["workflow_name"]), run["status"], run["trigger"],
         f"{run['steps_completed']}/{run['steps_total']}", moment(run["started_at"]),
         duration(run["duration_ms"]), short(_why(run["error"]))]
        for run in found[:limit]
    ]  # fmt: skip
    head = ["id", "workflow", "status", "trigger", "steps", "started", "took", "why"]
    print_table(head, rows, "There are no runs.")


@commands.command("show")
def runs_show(run_id: RunId, as_json: Json = False) -> None:
    """Show a run: its steps, their durations, the reason of a failure, and the result."""
    with connect_service(_SHOWN) as service:
        print_run(service.get(_path(run_id)), as_json)


@commands.command("watch")
def runs_watch(run_id: RunId, as_json: Json = False) -> None:
    """Watch a run until it ends. Exits with 1 if it was not completed."""
    with connect_service(_SHOWN) as service:
        end_with(follow(service, run_id, aloud=not as_json), as_json)


@commands.command("retry")
def runs_retry(
    run_id: RunId,
    from_step: Annotated[
        str | None, typer.Option(help="Repeat this step, and all that depend on it.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="The version of the workflow; by default that of the run.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Exit with 1 if it was not completed.")] = False,
    as_json: Json = False,
) -> None:
    """Run it again, as a new run that reuses the finished steps of this one."""
    given = {"from_step": from_step, "version": version}
    body = {name: value for name, value in given.items() if value is not None}
    with connect_service(_SHOWN) as service:
        started = service.post(f"{_path(run_id)}/retry", body)
        if wait:
            end_with(follow(service, started["run_id"], aloud=False), as_json)
    print_data(started, f"The run {started['run_id']} is {started['status']}.", as_json)


@commands.command("cancel")
def runs_cancel(run_id: RunId, as_json: Json = False) -> None:
    """End a run now. One that has ended stays as it is."""
    with connect_service(_SHOWN) as service:
        run = service.post(f"{_path(run_id)}/cancel")
    print_data(run, f"The run {run['id']} is {run['status']}.", as_json)


def follow(service: Service, run_id: str, *, aloud: bool) -> dict[str, Any]:
    """Return a run at its end; with `aloud`, print its steps on standard error until then."""
    run: dict[str, Any] | None = None
    said: dict[str, str] = {}
    try:
        for event in service.events(f"{_path(run_id)}/events"):
            run = run if event.name == "step" else event.data
            if aloud:
                _say([event.data] if event.name == "step" else event.data["steps"], said)
    except BadInput:
        raise
    except (KeyboardInterrupt, Exception):  # for example, the service has stopped
        if run is not None:
            print(f"The run goes on. `vedette runs watch {run_id}` follows it.", file=sys.stderr)
        raise
    return run or service.get(_path(run_id))


def _say(steps: Sequence[Mapping[str, Any]], said: dict[str, str]) -> None:
    """Print the states of steps that have changed."""
    for step in steps:
        if said.get(step["id"], "pending") != (now := _describe_step(step)):
            said[step["id"]] = now
            print(f"{printable(step['id'])}  {now}", file=sys.stderr, flush=True)


def end_with(run: Mapping[str, Any], as_json: bool) -> None:
    """Print a run that has ended, and exit by its status."""
    print_run(run, as_json)
    raise typer.Exit(0 if run["status"] == "completed" else 1)


def print_run(run: Mapping[str, Any], as_json: bool) -> None:
    """Print a run."""
    if as_json:
        print(json.dumps(run, indent=2))
        return
    counts = f"{run['steps_completed']} of {run['steps_total']} steps"
    fields = {
        "run": None if run["test"] else run["id"],
        "workflow": f"{run['workflow_name']} (version {run['workflow_version']})",
        "status": run["status"],
        "carried by": _carrier(run),
        "done": f"{counts} in {duration(run['duration_ms'])}, {run['credits_used']:,} credits",
        "items": _items(run),
        "why": _why(run["error"]),
        "taken over": _taken_over(run.get("takeovers")),
        "restarted from": run["restarted_from"],
        "started by": run["parent_run_id"],
    }
    print_rows([[name, printable(value)] for name, value in fields.items() if value])
    urls: dict[str, str] = run.get("resume_urls") or {}
    for step, url in urls.items():
        print(f"{printable(step)} waits for an answer at {printable(url)}")
    if run["steps"]:
        rows = [_row(step) for step in run["steps"]]
        print_table(["step", "type", "status", "started", "took", "tries", "what came of it"], rows)
    if run["output"] is not None:
        print(f"output: {short(run['output'], 2000)}")


def _taken_over(takeovers: Mapping[str, Any] | None) -> str:
    if not takeovers:
        return ""
    times = "once" if takeovers["count"] == 1 else f"{takeovers['count']} times, last"
    return f"{times} at {moment(takeovers['last_at'])}, from a worker that was lost"


def _carrier(run: Mapping[str, Any]) -> str:
    by = {"workflow": f"the Temporal workflow run/{run['id']}", "shift": "a worker's shift"}
    return by.get(run.get("carrier") or "", "")


def _row(step: Mapping[str, Any]) -> list[str]:
    came = _why(step["error"]) or (short(step["output"]) if step["output"] is not None else "")
    mocked = "mocked: " if step.get("mocked") else ""
    items = f"{_items(step)}; " if step["items_failed"] else ""
    return [
        printable(step["id"]), step["type"], step["status"], (step["started_at"] or "–")[11:19] or "–",
        duration(step["duration_ms"]), str(step["attempts"]), mocked + items + came,
    ]  # fmt: skip


def _items(counted: Mapping[str, Any]) -> str:
    """Return how many items of a step, or of a run, failed; empty if it has none."""
    total = counted["items_total"]
    return f"{counted['items_failed']:,} of {total:,} items failed" if total else ""


def _describe_step(step: Mapping[str, Any]) -> str:
    """Return the state of a step, with the reason."""
    if step["status"] == "pending":
        return "pending"
    tries = f", attempt {step['attempts']}" if step["attempts"] > 1 else ""
    why = _why(step["error"])
    return f"{step['status']}{tries}{': ' + why if why else ''}"


def _why(error: Mapping[str, Any] | None) -> str:
    if not error:
        return ""
    step = f"{printable(error['step'])}: " if error.get("step") else ""
    return f"{step}{printable(error.get('message'))} ({printable(error.get('code'))})"


def _path(run_id: str) -> str:
    return f"{_PATH}/{part(run_id)}"
