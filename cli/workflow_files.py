"""`vedette workflows validate`, `apply`, `export`, `graph`, `schema`: workflows as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from cli.client import Service, connect_service, part
from cli.documents import Document, NoDocument, read_document, write_yaml
from cli.errors import BadInput, Refused
from cli.output_files import replace_file
from cli.printing import Json, print_data, printable
from cli.workflow_lookup import find_by_name, find_monitor, find_workflow
from cli.workflows import SHOWN, Named, commands
from language.references import NOBODY, Reference, replace_names

_FILE = "JSON or YAML; - reads standard input."


@commands.command("validate")
def workflows_validate(
    file: Annotated[typer.FileBinaryRead, typer.Argument(metavar="FILE", help=_FILE)],
    as_json: Json = False,
) -> None:
    """Print all errors of a workflow, without a service. Exits with 1 if there is one."""
    from models.automations.definitions import validate
    from providers.registry import answer_shapes, lookup_fields

    try:
        document = read_document(_name(file), file.read())
    except NoDocument as error:
        wrong = {"pointer": "", "code": "invalid_json", "message": str(error)}
        found = {"valid": False, "errors": [wrong], "warnings": []}
        print(json.dumps(found, indent=2) if as_json else error)
        raise typer.Exit(1) from None
    # Only a service knows whether an object of that name exists.
    given = replace_names(document.value, lambda _place, _name: NOBODY)
    report = validate(given, None, lookup_fields=lookup_fields(), answers=answer_shapes())
    if as_json:
        found = {
            name: [one._asdict() | {"line": document.line_of(one.pointer)} for one in getattr(report, name)]
            for name in ("errors", "warnings")
        }
        print(json.dumps({"valid": not report.errors} | found, indent=2))
    else:
        for one in report.errors:
            print(document.locate(one.pointer, one.message))
        if not report.errors:
            print("The workflow is valid.")
        for one in report.warnings:
            print(document.locate(one.pointer, f"warning: {one.message}"))
    raise typer.Exit(1 if report.errors else 0)


@commands.command("apply")
def workflows_apply(
    files: Annotated[list[typer.FileBinaryRead], typer.Argument(metavar="FILE...", help=_FILE)],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and show what would be changed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the workflows of these files, or update those of the same names to match the files.

    A file with an `id` is for the workflow of that id, whatever its name. A field that a file omits is reset
    to its default, except for the status.
    """
    documents = [_readable(file) for file in files]
    _refuse_repeats(documents)
    done: list[dict[str, Any]] = []
    wrong: list[str] = []
    with connect_service(SHOWN) as service:
        for document in documents:
            try:
                done.append(_apply(service, document, dry_run))
            except BadInput as error:
                wrong.append(str(error))
            else:
                if not as_json:
                    _tell(document, done[-1], dry_run)
    if as_json:
        print(json.dumps([{name: one[name] for name in one if name != "diff"} for one in done], indent=2))
    if wrong:
        raise BadInput("\n".join(wrong))


@commands.command("export")
def workflows_export(
    workflow: Named,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="The default, except for files named .json.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Instead of standard output.")
    ] = None,
) -> None:
    """Print a workflow as the file that `apply` takes."""
    if as_yaml and as_json:
        raise BadInput("--yaml: Give one of --yaml and --json.")
    with connect_service(SHOWN) as service:
        found = find_workflow(service, workflow, "ID|NAME")
        exported = service.get(f"/api/workflows/{found['id']}/export")
    is_json = as_json or (not as_yaml and output is not None and output.suffix == ".json")
    text = json.dumps(exported, indent=2, ensure_ascii=False) + "\n" if is_json else write_yaml(exported)
    if output is None:
        print(text, end="")
        return
    with replace_file(output) as file:
        file.write(text.encode())


@commands.command("graph")
def workflows_graph(
    workflow: Named,
    version: Annotated[int | None, typer.Option(min=1, help="The newest by default.")] = None,
    as_json: Json = False,
) -> None:
    """Print the steps of a workflow, and which waits for which, as a Mermaid diagram."""
    with connect_service({**SHOWN, "version": "--version"}) as service:
        found = find_workflow(service, workflow, "ID|NAME")
        graph = service.get(f"/api/workflows/{found['id']}/versions/{version or found['version']}/graph")
    print_data(graph, _draw_mermaid(graph), as_json)


@commands.command("schema")
def workflows_schema() -> None:
    """Print the JSON Schema of workflows, for editors."""
    from models.automations.definitions import json_schema

    print(json.dumps(json_schema(), indent=2))


def _draw_mermaid(graph: dict[str, Any]) -> str:
    # Ids of steps may be words that Mermaid reserves, so nodes are numbered.
    numbers = {node["id"]: f"s{number}" for number, node in enumerate(graph["nodes"])}
    nodes = [
        f'  {numbers[node["id"]]}["{_escape(node["name"] or node["id"])}<br/>{_escape(node["type"])}"]'
        for node in graph["nodes"]
    ]
    edges: list[str] = []
    for edge in graph["edges"]:
        arrow = f"-- {edge['label']} -->" if edge["label"] else "-->"
        edges.append(f"  {numbers[edge['from']]} {arrow} {numbers[edge['to']]}")
    return "\n".join(["flowchart TD", *nodes, *edges])


def _escape(text: str) -> str:
    return "".join(one if one.isalnum() or one in " _-." else f"#{ord(one)};" for one in text)


def _readable(file: typer.FileBinaryRead) -> Document:
    document = read_document(_name(file), file.read())
    value: Any = document.value
    if not isinstance(value, dict):
        raise BadInput(f"{document.name}: A workflow is an object.")
    if not isinstance(document.value.get("name"), str):
        raise BadInput(document.locate("/name", "A workflow needs a name."))
    return document


def _refuse_repeats(documents: Sequence[Document]) -> None:
    """Check that no two files are for the same workflow, because each would undo the other."""
    seen: dict[str, str] = {}
    for document in documents:
        key = str(document.value.get("id") or document.value["name"].strip())
        if (first := seen.setdefault(key, document.name)) != document.name:
            raise BadInput(f"{document.name}: {first} has the same workflow.")


def _apply(service: Service, document: Document, dry_run: bool) -> dict[str, Any]:
    """Create or update a workflow, or preview that; return its `action`, and the resulting workflow.

    Raises:
        BadInput: the service rejects the file; each error has its place in it.
    """
    current = _current(service, document)
    wanted = {name: value for name, value in document.value.items() if name != "id"}
    try:
        if current is None:
            diff = _diff({}, wanted)
            if dry_run:
                return _check_file(service, document, wanted, {"action": "created", "id": None, "diff": diff})
            made = service.post("/api/workflows", wanted)
            return _report_action("created", made)
        path = f"/api/workflows/{part(str(current['id']))}"
        exported = service.get(f"{path}/export")
        wanted = {**_defaults(), "status": exported["status"], **wanted}
        before, after = _comparable(exported), _comparable(_with_ids(service, wanted))
        if before is not None and before == after:
            return _report_action("unchanged", current)
        if dry_run:
            found = _report_action("updated", current) | {"diff": _diff(exported, wanted)}
            return _check_file(service, document, wanted, found)
        headers = {"If-Match": f'"v{current["version"]}"'}
        return _report_action("updated", service.call("PATCH", path, json=wanted, headers=headers))
    except Refused as refused:
        raise document.refusal(refused.errors, str(refused)) from None


def _with_ids(service: Service, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with names replaced by ids, for comparison with the stored one."""

    def id_of(place: Reference, name: str) -> UUID:
        find = find_workflow if place.noun == "workflow" else find_monitor
        try:
            return UUID(str(find(service, name, place.pointer)["id"]))
        except BadInput:
            # The service reports what is wrong with it.
            return NOBODY

    return replace_names(wanted, id_of)


def _current(service: Service, document: Document) -> dict[str, Any] | None:
    """Return the workflow that a file is for, if it exists."""
    if "id" in document.value:
        try:
            return service.get(f"/api/workflows/{part(str(document.value['id']))}")
        except Refused:
            raise BadInput(document.locate("/id", "There is no such workflow; leave the id out.")) from None
    found = find_by_name(service, document.value["name"].strip())
    if len(found) > 1:
        ids = ", ".join(str(one["id"]) for one in found)
        raise BadInput(
            document.locate("/name", f"Several workflows have this name; add the id of one: {ids}.")
        )
    return found[0] if found else None


def _check_file(
    service: Service, document: Document, wanted: dict[str, Any], found: dict[str, Any]
) -> dict[str, Any]:
    """Return the previewed action, if the service accepts the file."""
    report = service.post("/api/workflows/validate", wanted)
    if not report["valid"]:
        raise document.refusal(report["errors"], "")
    return found | {"warnings": report["warnings"]}


def _report_action(action: str, workflow: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "name", "version", "status", "webhook_url")
    known = {name: workflow.get(name) for name in names}
    return {"action": action, **known, "warnings": workflow.get("warnings") or []}


def _defaults() -> dict[str, Any]:
    """Return the defaults of a definition that has only a name."""
    from language.validation.definition import Document as Definition

    plain = Definition.model_validate({"name": "x"}).model_dump(mode="json")
    return {name: value for name, value in plain.items() if name not in ("name", "status")}


def _comparable(document: dict[str, Any], *, brief: bool = False) -> dict[str, Any] | None:
    """Return a definition as the service reads it, with all its defaults, or in brief without them.

    Returns None if this release cannot read it.
    """
    from pydantic import ValidationError

    from language.validation.definition import Document as Definition

    known = {name: value for name, value in document.items() if name in Definition.model_fields}
    try:
        return Definition.model_validate(known).model_dump(mode="json", exclude_defaults=brief)
    except ValidationError:
        return None


def _diff(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the changes, line by line as YAML."""
    read = [_comparable(one, brief=True) or one for one in (before, after)]
    old, new = (write_yaml(one).splitlines() if one else [] for one in read)
    lines = list(unified_diff(old, new, lineterm="", n=2))[2:]
    return "\n".join(printable(line) for line in lines if not line.startswith("@@"))


def _tell(document: Document, found: dict[str, Any], dry_run: bool) -> None:
    """Print the action taken for a file."""
    name = printable(document.value["name"])
    action, version = found["action"], found.get("version")
    if dry_run and action != "unchanged":
        print(f"{document.name}: {name} would be {action}")
        print(found["diff"])
    else:
        to = f" to version {version}" if action == "updated" else f" ({found['id']})"
        print(f"{document.name}: {name} {action}{to}")
    for one in found["warnings"]:
        print(document.locate(one["pointer"], f"warning: {one['message']}"))


def _name(file: typer.FileBinaryRead) -> str:
    return "-" if file.name == "<stdin>" else file.name
