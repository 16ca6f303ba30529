"""`vedette workflows`: list, show, run and try them; `cli.workflow_files` has the commands on files."""

from __future__ import annotations

import json
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli.client import connect_service, part
from cli.documents import read_document
from cli.errors import BadInput, Refused
from cli.groups import new_group
from cli.printing import Json, moment, print_data, print_record, print_table, printable
from cli.runs import end_with, follow, print_run
from cli.workflow_lookup import all_workflows, find_workflow

commands = new_group("Workflows, on the service and as files.")

Named = Annotated[str, typer.Argument(metavar="ID|NAME", help="A workflow.")]
Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON|@FILE", help="The value of `trigger`; @- reads standard input."),
]
Status = Literal["active", "paused", "draft"]

SHOWN = {
    "not_found": "ID|NAME", "input": "--input", "workflow_not_active": "ID|NAME", "mocks": "--mocks",
    "version_mismatch": "ID|NAME",
}  # fmt: skip


@commands.command("list")
def workflows_list(
    status: Annotated[Status | None, typer.Option(help="Only those with this status.")] = None,
    as_json: Json = False,
) -> None:
    """List the workflows of the account, newest first."""
    with connect_service(SHOWN) as service:
        found = list(all_workflows(service, status))
    if as_json:
        print(json.dumps({"workflows": found, "total": len(found)}, indent=2))
        return
    rows = [
        [one["id"], printable(one["name"]), one["status"], one["trigger"]["type"], f"v{one['version']}",
         f"{one['runs_total']:,}", moment(one["last_run_at"])]
        for one in found
    ]  # fmt: skip
    head = ["id", "name", "status", "trigger", "version", "runs", "last run"]
    print_table(head, rows, "There are no workflows.")


@commands.command("show")
def workflows_show(workflow: Named, as_json: Json = False) -> None:
    """Show a workflow."""
    with connect_service(SHOWN) as service:
        found = service.get(_path(find_workflow(service, workflow, "ID|NAME")))
    shown = found if as_json else {name: value for name, value in found.items() if name != "steps"}
    print_record(shown, as_json)
    if not as_json:
        rows = [[printable(step["id"]), step["type"], printable(step["config"])] for step in found["steps"]]
        print_table(["step", "type", "config"], rows, "It has no steps.")


@commands.command("run")
def workflows_run(
    workflow: Named,
    input: Input = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; exits with 1 if it was not completed.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait as well, and show each step as it runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a run of a workflow."""
    body = {"input": read_input(input, "--input")}
    with connect_service(SHOWN) as service:
        started = service.post(f"{_path(find_workflow(service, workflow, 'ID|NAME'))}/run", body)
        if wait or watch:
            end_with(follow(service, started["run_id"], aloud=watch), as_json)
    print_data(started, f"The run {started['run_id']} is {started['status']}.", as_json)


@commands.command("test")
def workflows_test(
    workflow: Named,
    input: Input = None,
    file: Annotated[
        typer.FileBinaryRead | None, typer.Option(help="Try the steps of this file instead of its own.")
    ] = None,
    mocks: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE", help="Outputs by step, in place of their own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Preview a run: nothing is stored, sent or charged. Exits with 1 if it would fail."""
    body: dict[str, Any] = {"input": read_input(input, "--input")}
    document = None if file is None else read_document(file.name, file.read())
    if document is not None:
        value: Any = document.value
        if not isinstance(value, dict) or "steps" not in value:
            raise BadInput(f"--file: {document.name} has no steps.")
        body["steps"] = value["steps"]
    if mocks is not None:
        body["mocks"] = read_input(mocks, "--mocks")
    with connect_service(SHOWN) as service:
        path = f"{_path(find_workflow(service, workflow, 'ID|NAME'))}/test"
        try:
            run = service.post(path, body)
        except Refused as refused:
            if document is None or not refused.errors:
                raise
            raise document.refusal(refused.errors, str(refused)) from None
    print_run(run, as_json)
    raise typer.Exit(0 if run["status"] == "completed" else 1)


@commands.command("copy")
def workflows_copy(
    template: Annotated[str, typer.Argument(metavar="TEMPLATE", help="Its id, from docs/templates.md.")],
    name: Annotated[str | None, typer.Option(help="The name of the copy.")] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A secret to store with it, as often as you like: you are asked for"
                     " its value, or standard input has a line for each."),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make a workflow from a template, and list the missing parts."""
    body: dict[str, Any] = {"template_id": template}
    if name is not None:
        body["name"] = name
    if secret:
        body["secrets"] = {one: _read_secret(one) for one in secret}
    with connect_service(
        {"template_id": "TEMPLATE", "name": "--name", "secrets": "--secret", "secret_exists": "--secret"}
    ) as service:
        made = service.post("/api/workflows", body)
    told = f"The workflow {printable(made['name'])} ({made['id']}) is {made['status']}."
    print_data(made, "\n".join([told, *(printable(one["message"]) for one in made["warnings"])]), as_json)


def _read_secret(name: str) -> str:
    """Return the value of a secret, hidden from the screen and from the process arguments.

    Raises:
        BadInput: there is none.
    """
    value = getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not value:
        raise BadInput(f"--secret: There is no value for {name}: give one on a line of standard input.")
    return value


@commands.command("pause")
def workflows_pause(workflow: Named, as_json: Json = False) -> None:
    """Stop a workflow from starting runs."""
    _set_status(workflow, "paused", as_json)


@commands.command("resume")
def workflows_resume(workflow: Named, as_json: Json = False) -> None:
    """Allow a workflow to start runs again."""
    _set_status(workflow, "active", as_json)


@commands.command("delete")
def workflows_delete(
    workflow: Named,
    cancel_runs: Annotated[bool, typer.Option("--cancel-runs", help="End its runs too.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a workflow. Its runs stay readable, and continue."""
    with connect_service(SHOWN) as service:
        found = find_workflow(service, workflow, "ID|NAME")
        deleted = service.call("DELETE", _path(found), params={"cancel_runs": cancel_runs})
    print_data(deleted, f"The workflow {printable(found['name'])} ({found['id']}) is deleted.", as_json)


def read_input(given: str | None, option: str) -> Any:
    """Return the JSON of an option, or of the file named after an @, which may also be YAML.

    Raises:
        BadInput: it is neither, or there is no such file.
    """
    if given is None:
        return None
    try:
        if not given.startswith("@"):
            value = json.loads(given)
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()  # no NaN, no lone surrogates
            return value
        content = sys.stdin.buffer.read() if given == "@-" else Path(given[1:]).read_bytes()
        return read_document(given[1:], content).value
    except OSError as error:
        raise BadInput(f"{option}: {given[1:]} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise BadInput(
            f"{option}: This is not JSON. Quote it for the shell, or name a file as @FILE."
        ) from None


def _set_status(workflow: str, status: Status, as_json: bool) -> None:
    with connect_service(SHOWN) as service:
        found = find_workflow(service, workflow, "ID|NAME")
        if found["status"] != status:  # each change makes a version
            found = service.call("PATCH", _path(found), json={"status": status})
    name = printable(found["name"])
    print_data(found, f"The workflow {name} ({found['id']}) is {found['status']}.", as_json)


def _path(workflow: dict[str, Any]) -> str:
    return f"/api/workflows/{part(str(workflow['id']))}"
