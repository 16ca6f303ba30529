"""`vedette lists`: reusable lists of targets of one type."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput
from cli.groups import new_group
from cli.printing import Json, moment, print_data, print_record, print_table, printable
from cli.target_files import SHOWN, Column, CsvFile, describe_import, send_file
from cli.targets import Targets, TargetsFile, Type, naming_targets, read_targets
from cli.workflow_lookup import find_list

commands = new_group("Contact lists: targets of one type, kept for reuse.")

Named = Annotated[str, typer.Argument(metavar="ID|NAME", help="A list.")]
Which = Annotated[Type | None, typer.Option(help="Only those of this type.")]

_SHOWN = {"name": "NAME", "targets": "--targets", "too_many_lists": "NAME", "list_full": "--targets",
          "not_found": "ID|NAME"}  # fmt: skip


@commands.command("create")
def lists_create(
    name: str,
    type: Annotated[Type, typer.Option(help="The type of its targets.")] = "email",
    targets: Targets = None,
    targets_file: TargetsFile = None,
    as_json: Json = False,
) -> None:
    """Create a list. Targets that do not fit its type are listed, and left out."""
    texts = read_targets(type, targets or [], targets_file)
    with connect_service(_SHOWN) as service, naming_targets(texts):
        print_record(service.post("/api/lists", {"name": name, "type": type, "targets": texts}), as_json)


@commands.command("list")
def lists_list(type: Which = None, as_json: Json = False) -> None:
    """List the contact lists of the account, newest first."""
    with connect_service(_SHOWN) as service:
        found = service.get("/api/lists", type=type)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    rows = [
        [
            one["id"],
            printable(one["name"]),
            one["type"],
            f"{one['target_count']:,}",
            moment(one["updated_at"]),
        ]
        for one in found
    ]
    print_table(["id", "name", "type", "targets", "changed"], rows, "There are no lists.")


@commands.command("show")
def lists_show(contact_list: Named, as_json: Json = False) -> None:
    """Print the targets of a list, one a line."""
    with connect_service(_SHOWN) as service:
        found = service.get(f"{_path(find_list(service, contact_list, 'ID|NAME'))}/targets")
    print_data(found, "\n".join(printable(target) for target in found), as_json)


@commands.command("add")
def lists_add(
    contact_list: Named, targets: Targets = None, targets_file: TargetsFile = None, as_json: Json = False
) -> None:
    """Add targets to a list. Existing ones are ignored."""
    with connect_service(_SHOWN) as service:
        found = find_list(service, contact_list, "ID|NAME")
        texts = _read_targets(found["type"], targets, targets_file)
        done = service.post(f"{_path(found)}/targets", {"targets": texts})
    lines = [
        f"{done['added']:,} added, {done['duplicates']:,} there already, {len(done['invalid']):,} invalid."
    ]
    lines += [f"{printable(one['target'])}: {printable(one['reason'])}" for one in done["invalid"]]
    print_data(done, "\n".join(lines), as_json)


@commands.command("import")
def lists_import(contact_list: Named, file: CsvFile, column: Column = None, as_json: Json = False) -> None:
    """Add the targets of a CSV file to a list. Rows without a target are listed, and left out."""
    with connect_service({**_SHOWN, **SHOWN}) as service:
        path = _path(find_list(service, contact_list, "ID|NAME"))
        done = send_file(service, path, file, column)
    print_data(done, describe_import(done), as_json)


@commands.command("remove")
def lists_remove(
    contact_list: Named, targets: Targets = None, targets_file: TargetsFile = None, as_json: Json = False
) -> None:
    """Remove targets from a list."""
    with connect_service(_SHOWN) as service:
        found = find_list(service, contact_list, "ID|NAME")
        texts = _read_targets(found["type"], targets, targets_file)
        done = service.call("DELETE", f"{_path(found)}/targets", json={"targets": texts})
    print_data(done, f"{done['deleted']:,} removed.", as_json)


@commands.command("delete")
def lists_delete(contact_list: Named, as_json: Json = False) -> None:
    """Delete a list with its targets. Monitors that watch it pause."""
    with connect_service(_SHOWN) as service:
        found = find_list(service, contact_list, "ID|NAME")
        service.call("DELETE", _path(found))
        paused = _find_paused(service, found["id"])
    lines = [f"The list {printable(found['name'])} ({found['id']}) is deleted."]
    if paused is None:
        lines += ["Active monitors that watched it are paused; which ones could not be read."]
    else:
        lines += [f"The monitor {printable(one['name'])} ({one['id']}) is paused." for one in paused]
    print_data({"id": found["id"], "deleted": True, "paused_monitors": paused}, "\n".join(lines), as_json)


def _find_paused(service: Service, list_id: str) -> list[dict[str, Any]] | None:
    """Return the monitors that the deletion of a list has paused.

    Returns None if they cannot be read: the key may lack the scope `monitors`.
    """
    try:
        found = service.get("/api/monitors")["monitors"]
    except Exception as error:
        from settings import StartError  # takes half a second

        if not isinstance(error, StartError):
            raise
        return None
    reason = ("list_deleted", list_id)
    return [
        {"id": one["id"], "name": one["name"]}
        for one in found
        if (one["paused_reason"], one["data_source_ref"]) == reason
    ]


def _read_targets(type: str, targets: list[str] | None, file: typer.FileBinaryRead | None) -> list[str]:
    texts = read_targets(type, targets or [], file)
    if not texts:
        raise BadInput("--targets: Give at least one target, or a file of them by --targets-file.")
    return texts


def _path(contact_list: dict[str, Any]) -> str:
    return f"/api/lists/{part(str(contact_list['id']))}"
