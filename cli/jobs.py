"""`vedette jobs`: files of targets, looked up row by row in the background."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput
from cli.groups import new_group
from cli.output_files import replace_file
from cli.printing import Json, moment, print_data, print_record, print_table, printable

commands = new_group("Bulk jobs: files of targets, looked up row by row.")

Type = Literal[
    "email", "breach", "validate", "phone", "ip", "domain", "company", "username", "websearch", "darkweb"
]
Format = Literal["csv", "jsonl", "json"]
JobId = Annotated[str, typer.Argument(metavar="ID")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", dir_okay=False, help="The file for the results.")
]
Written = Annotated[Format, typer.Option(help="The format of the results.")]

_SHOWN = {
    "not_found": "ID", "type": "--type", "column": "--column", "name": "--name", "fields": "--fields",
    "job_not_finished": "ID", "file": "FILE", "": "FILE", "no_such_column": "--column",
    "column_required": "--column",
}  # fmt: skip
_PATH = "/api/bulk-jobs"
_PAGE = 100
_LINES_APART = 10


@commands.command("run")
def jobs_run(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="CSV with a header; - reads standard input."),
    ],
    type: Annotated[Type, typer.Option(help="The kind of lookup for its targets.")],
    column: Annotated[
        str | None, typer.Option(help="The column with the targets; found by itself by default.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the job.")] = None,
    fields: Annotated[str | None, typer.Option(help="Only these fields, separated by commas.")] = None,
    output: Output = None,
    format: Written = "csv",
    wait: Annotated[bool, typer.Option(help="Wait for its end.")] = True,
    as_json: Json = False,
) -> None:
    """Look up all rows of a file, and write the results. Exits with 1 if the job was not completed.

    Ctrl-C ends the command; the job continues.
    """
    _check_writable(output)
    given = {"type": type, "column": column, "name": name, "fields": fields}
    form = {field: value for field, value in given.items() if value is not None}
    upload = {"file": (Path(file.name).name, file.read(), "text/csv")}
    with connect_service(_SHOWN) as service:
        job = service.call("POST", _PATH, data=form, files=upload)
        if wait:
            job = _follow_job(service, job)
        ended = job["status"] == "completed"
        if ended and output is not None:
            try:
                _write_results(service, job["id"], output, format)
            except BadInput as error:
                again = f"The job is done: `vedette jobs results {job['id']}` gives what was found."
                raise BadInput(f"{error} {again}") from None
    if as_json:
        print(json.dumps(job, indent=2))
    else:
        print(_describe_job(job))
        if output is None or not wait:
            print(f"`vedette jobs results {job['id']}` gives what was found.")
    raise typer.Exit(0 if ended or not wait else 1)


@commands.command("list")
def jobs_list(
    limit: Annotated[int, typer.Option(min=1, help="The most to list.")] = 20, as_json: Json = False
) -> None:
    """List the bulk jobs of the account, newest first."""
    found: list[dict[str, Any]] = []
    with connect_service(_SHOWN) as service:
        cursor: str | None = None
        while len(found) < limit:
            page = service.get(_PATH, limit=min(limit - len(found), _PAGE), cursor=cursor)
            found += page["jobs"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    if as_json:
        print(json.dumps({"jobs": found}, indent=2))
        return
    rows = [
        [job["id"], printable(job["name"]), job["type"], job["status"],
         f"{job['processed_rows']:,}/{job['total_rows']:,}", f"{job['failed_rows']:,}",
         f"{job['credits_used']:,}", moment(job["created_at"])]
        for job in found
    ]  # fmt: skip
    head = ["id", "name", "type", "status", "rows", "failed", "credits", "created"]
    print_table(head, rows, "There are no jobs.")


@commands.command("show")
def jobs_show(job_id: JobId, as_json: Json = False) -> None:
    """Show a job: its progress and its cost."""
    with connect_service(_SHOWN) as service:
        print_record(service.get(_path(job_id)), as_json)


@commands.command("watch")
def jobs_watch(job_id: JobId, as_json: Json = False) -> None:
    """Watch a job until it ends. Exits with 1 if it was not completed."""
    with connect_service(_SHOWN) as service:
        job = _follow_job(service, service.get(_path(job_id)))
    print_data(job, _describe_job(job), as_json)
    raise typer.Exit(0 if job["status"] == "completed" else 1)


@commands.command("cancel")
def jobs_cancel(job_id: JobId, as_json: Json = False) -> None:
    """End a job now; finished rows stay, and are paid."""
    with connect_service(_SHOWN) as service:
        job = service.post(f"{_path(job_id)}/cancel")
    print_data(job, _describe_job(job), as_json)


@commands.command("results")
def jobs_results(job_id: JobId, output: Output = None, format: Written = "csv") -> None:
    """Write the rows of a job that has ended, with the result of each."""
    _check_writable(output)
    with connect_service(_SHOWN) as service:
        _write_results(service, job_id, output, format)


def _follow_job(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    """Return the job at its end; until then print its progress on standard error."""
    try:
        with _progress(job) as show:
            for event in service.events(f"{_path(job['id'])}/events"):
                job = event.data
                show(job)
    except BadInput:
        raise
    except (KeyboardInterrupt, Exception):  # for example, the service has stopped
        print(
            f"The job goes on. `vedette jobs watch {job['id']}` follows it, `jobs cancel` ends it.",
            file=sys.stderr,
        )
        raise
    return job


@contextmanager
def _progress(job: Mapping[str, Any]) -> Generator[Any]:
    """Yield a progress bar on a terminal; elsewhere a printer of a line for each further tenth."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    look = TextColumn("{task.description}", markup=False)
    with Progress(
        look, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(job["status"], total=job["total_rows"])

        def show(job: Mapping[str, Any]) -> None:
            bar.update(task, completed=job["processed_rows"], description=job["status"])

        yield show


class _Lines:
    """Prints the progress of a job, a line for each tenth."""

    def __init__(self) -> None:
        self._told = -1

    def __call__(self, job: Mapping[str, Any]) -> None:
        """Print the progress, if a further tenth is done."""
        tenth = _LINES_APART * job["processed_rows"] // max(1, job["total_rows"])
        if tenth > self._told:
            self._told = tenth
            print(f"{job['processed_rows']:,} of {job['total_rows']:,} rows", file=sys.stderr, flush=True)


def _describe_job(job: Mapping[str, Any]) -> str:
    counts = f"{job['processed_rows']:,} of {job['total_rows']:,} rows, {job['failed_rows']:,} failed"
    why = f" {printable(job['error']['message'])}" if job["error"] else ""
    return f"The job {job['id']} is {job['status']}: {counts}, {job['credits_used']:,} credits.{why}"


def _check_writable(output: Path | None) -> None:
    """Check that the results can be written, before they are paid for."""
    if output is not None and not output.absolute().parent.is_dir():
        raise BadInput(f"--output: There is no folder {output.parent}.")


def _write_results(service: Service, job_id: str, output: Path | None, format: Format) -> None:
    """Write the results to a file, whole or not at all, or to standard output."""
    with service.stream("GET", f"{_path(job_id)}/results", params={"format": format}) as response:
        if output is None:
            for chunk in response.iter_bytes():
                sys.stdout.buffer.write(chunk)
            return
        with replace_file(output) as file:
            for chunk in response.iter_bytes():
                file.write(chunk)


def _path(job_id: str) -> str:
    return f"{_PATH}/{part(job_id)}"
