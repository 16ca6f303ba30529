"""`vedette uploads`: CSV files for workflows, a run for each row."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.client import Service, connect_service, part
from cli.groups import new_group
from cli.printing import Json, print_data
from cli.workflow_lookup import find_workflow

commands = new_group("Uploads: CSV files for workflows, a run for each row.")

BatchId = Annotated[str, typer.Argument(metavar="ID")]

_SHOWN = {"not_found": "ID", "file": "FILE", "": "FILE", "workflow_not_active": "WORKFLOW",
          "no_file_upload_trigger": "WORKFLOW", "too_many_runs": "FILE"}  # fmt: skip
_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.2, 2.0


@commands.command("send")
def uploads_send(
    workflow: Annotated[str, typer.Argument(metavar="ID|NAME", help="A workflow that accepts files.")],
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="CSV with a header; - reads standard input."),
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of all runs; exits with 1 if one has failed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a run for each row of a file: all rows, or none."""
    upload = {"file": (Path(file.name).name, file.read(), "text/csv")}
    with connect_service(_SHOWN) as service:
        found = find_workflow(service, workflow, "ID|NAME")
        sent = service.call("POST", f"/api/workflows/{part(str(found['id']))}/upload", files=upload)
        batch = _get(service, sent["batch_id"])
        batch = _wait_for_batch(service, batch) if wait else batch
    _print(batch, as_json)
    raise typer.Exit(1 if wait and batch["runs_completed"] < batch["runs_total"] else 0)


@commands.command("show")
def uploads_show(batch_id: BatchId, as_json: Json = False) -> None:
    """Show the progress of an upload."""
    with connect_service(_SHOWN) as service:
        _print(_get(service, batch_id), as_json)


@commands.command("cancel")
def uploads_cancel(batch_id: BatchId, as_json: Json = False) -> None:
    """End the unfinished runs of an upload."""
    with connect_service(_SHOWN) as service:
        _print(service.post(f"{_path(batch_id)}/cancel"), as_json)


def _wait_for_batch(service: Service, batch: dict[str, Any]) -> dict[str, Any]:
    pause = _LOOK_SECONDS
    while batch["completed_at"] is None:
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_LOOK_SECONDS)
        batch = _get(service, batch["id"])
    return batch


def _get(service: Service, batch_id: str) -> dict[str, Any]:
    return service.get(_path(batch_id))


def _print(batch: Mapping[str, Any], as_json: bool) -> None:
    ended = f"{batch['runs_completed']:,} completed, {batch['runs_failed']:,} failed"
    text = f"The upload {batch['id']} is {batch['status']}: {batch['runs_total']:,} runs, {ended}."
    print_data(batch, text, as_json)


def _path(batch_id: str) -> str:
    return f"/api/workflows/batches/{part(batch_id)}"
