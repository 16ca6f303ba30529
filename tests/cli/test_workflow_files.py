"""`vedette workflows apply` and `export`: files and the service."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from settings import ExitCode
from tests.api_server import Api, Person
from tests.cli.conftest import Command, Json
from tests.stacks import CLI, environment

YAML = """\
name: {name}
description: Look visitors up
trigger:
  type: schedule
  schedule: 0 9 * * MON   # a bare cron
steps:
  - id: where
    type: ip_lookup
    config:
      field: trigger.ip
  - id: told
    type: transform
    config:
      expression: |
        {{
          country: where.location.country
        }}
"""


def write(tmp_path: Path, name: str, text: str = YAML) -> str:
    file = tmp_path / "visitors.yaml"
    file.write_text(text.format(name=name))
    return str(file)


async def stored(person: Person, name: str) -> dict[str, Any]:
    found = (await person.key.get("/api/workflows", params={"limit": 100})).json()["workflows"]
    [one] = [one for one in found if one["name"] == name]
    return (await person.key.get(f"/api/workflows/{one['id']}")).json()


async def test_a_file_is_created_then_unchanged_then_updated(
    command: Command, person: Person, tmp_path: Path
) -> None:
    file = write(tmp_path, "Thrice")
    said = [(await command("workflows", "apply", file)).stdout for _ in range(2)]
    made = await stored(person, "Thrice")
    assert said == [f"{file}: Thrice created ({made['id']})\n", f"{file}: Thrice unchanged ({made['id']})\n"]
    write(tmp_path, "Thrice", YAML.replace("Look visitors up", "Others"))
    assert (await command("workflows", "apply", file)).stdout == f"{file}: Thrice updated to version 2\n"
    assert (await stored(person, "Thrice"))["description"] == "Others"


async def test_a_version_of_a_workflow_is_drawn(command: Command, read: Json, tmp_path: Path) -> None:
    await command("workflows", "apply", write(tmp_path, "Drawn"))
    drawn = (await command("workflows", "graph", "Drawn")).stdout
    assert drawn.startswith('flowchart TD\n  s0["')
    graph = await read("workflows", "graph", "Drawn", "--version", "1")
    assert len(graph["nodes"]) == drawn.count("<br/>") and len(graph["edges"]) == drawn.count("-->")
    unknown = await command("workflows", "graph", "Drawn", "--version", "9")
    assert unknown.returncode == 2 and unknown.stderr


async def test_a_file_that_names_what_it_runs_is_unchanged_too(
    command: Command, person: Person, tmp_path: Path
) -> None:
    await command("workflows", "apply", write(tmp_path, "Below", "name: {name}\n"))
    steps = "steps:\n  - id: below\n    type: workflow\n    config:\n      workflow_id: Below\n"
    above = write(tmp_path, "Above", "name: {name}\n" + steps)
    said = [(await command("workflows", "apply", above)).stdout for _ in range(2)]
    assert [one.split()[2] for one in said] == ["created", "unchanged"]
    assert (await stored(person, "Above"))["version"] == 1


async def test_what_a_file_leaves_out_goes_back_but_the_status_stays(
    command: Command, person: Person, tmp_path: Path
) -> None:
    file = write(tmp_path, "Less")
    await command("workflows", "apply", file)
    await command("workflows", "pause", "Less")
    write(tmp_path, "Less", "name: {name}\n")
    assert (await command("workflows", "apply", file)).returncode == 0
    less = await stored(person, "Less")
    assert (less["status"], less["steps"], less["trigger"]) == ("paused", [], {"type": "manual"})
    assert not less["description"]


@pytest.mark.parametrize("ending", ["yaml", "json"])
async def test_what_is_exported_is_unchanged_when_applied(
    command: Command, read: Json, tmp_path: Path, ending: str
) -> None:
    await command("workflows", "apply", write(tmp_path, "Round"))
    file = str(tmp_path / f"exported.{ending}")
    assert (await command("workflows", "export", "Round", "-o", file)).returncode == 0
    assert (Path(file).read_text()[0] == "{") == (ending == "json")
    [applied] = await read("workflows", "apply", file)
    assert (applied["action"], applied["name"]) == ("unchanged", "Round")


async def test_an_export_that_fails_half_way_leaves_the_file_as_it_was(
    api: Api, command: Command, person: Person, tmp_path: Path
) -> None:
    await command("workflows", "apply", write(tmp_path, "Full"))
    file = tmp_path / "exported.yaml"
    file.write_text("former")
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, CLI]
    done = await asyncio.to_thread(
        subprocess.run, [*limited, "workflows", "export", "Full", "-o", file],
        env=environment(tmp_path, VEDETTE_URL=api.url, VEDETTE_API_KEY=person.secret), capture_output=True,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE and b"cannot be written: File too large." in done.stderr
    assert (file.read_text(), list(tmp_path.glob("*.part"))) == ("former", [])


async def test_an_export_goes_where_a_link_leads_and_to_what_is_no_file(
    command: Command, tmp_path: Path
) -> None:
    await command("workflows", "apply", write(tmp_path, "Linked"))
    file, link = tmp_path / "exported.yaml", tmp_path / "link.yaml"
    file.touch(0o600)
    link.symlink_to(file)
    assert (await command("workflows", "export", "Linked", "-o", str(link))).returncode == 0
    assert link.is_symlink() and "Linked" in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    done = await command("workflows", "export", "Linked", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout) == (0, file.read_text())


async def test_an_id_in_the_file_names_the_workflow_whatever_its_name(
    command: Command, read: Json, tmp_path: Path
) -> None:
    [made] = await read("workflows", "apply", write(tmp_path, "Former"))
    [renamed] = await read("workflows", "apply", write(tmp_path, "Later", f"id: {made['id']}\n{YAML}"))
    assert (renamed["action"], renamed["id"], renamed["name"]) == ("updated", made["id"], "Later")


async def test_a_dry_run_shows_what_would_change_and_changes_nothing(
    command: Command, person: Person, tmp_path: Path
) -> None:
    file = write(tmp_path, "Dry")
    done = await command("workflows", "apply", file, "--dry-run")
    assert done.stdout.startswith(f"{file}: Dry would be created\n+name: Dry\n")
    await command("workflows", "apply", file)
    write(tmp_path, "Dry", YAML.replace("trigger.ip", "trigger.address"))
    said = (await command("workflows", "apply", file, "--dry-run")).stdout
    changed = [line for line in said.splitlines() if line[0] in "+-"]
    assert changed == ["-    field: trigger.ip", "+    field: trigger.address"]
    assert (await stored(person, "Dry"))["version"] == 1


BAD = YAML.replace("ip_lookup", "ip_lokup").replace("country: where", "country: = where")


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["for good", "dry"])
async def test_what_the_service_does_not_take_is_told_by_file_and_line(
    command: Command, tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = write(tmp_path, "Bad", BAD)
    done = await command("workflows", "apply", file, *more)
    assert done.returncode == ExitCode.USAGE
    places = sorted(line.split(": ")[0] for line in done.stderr.splitlines())
    assert places == [f"{file}:14 steps[1].config.expression", f"{file}:8 steps[0].type"]


async def test_files_that_are_taken_are_applied_beside_one_that_is_not(
    command: Command, person: Person, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BAD.format(name="Never"))
    done = await command("workflows", "apply", str(bad), write(tmp_path, "Beside"))
    assert done.returncode == ExitCode.USAGE and "bad.yaml:8 steps[0].type" in done.stderr
    assert (await stored(person, "Beside"))["version"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- x", "visitors.yaml: A workflow is an object."),
        ("steps: []", "visitors.yaml:1 name: A workflow needs a name."),
        ("name: [x", "visitors.yaml:2: This is not YAML"),
        ("name: x\nid: 17", "visitors.yaml:2 id: There is no such workflow"),
    ],
)
async def test_what_is_no_workflow_is_told_by_file(
    command: Command, tmp_path: Path, text: str, said: str
) -> None:
    done = await command("workflows", "apply", write(tmp_path, "", text))
    assert done.returncode == ExitCode.USAGE and said in done.stderr


async def test_two_files_of_one_workflow_are_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text(json.dumps({"name": "Same"}))
    done = await command("workflows", "apply", str(tmp_path / "first.json"), write(tmp_path, "Same"))
    assert done.returncode == ExitCode.USAGE and "first.json has the same workflow" in done.stderr


async def test_of_several_with_one_name_the_ids_are_told(
    command: Command, person: Person, tmp_path: Path
) -> None:
    for _ in range(2):
        await person.key.post("/api/workflows", json={"name": "Twins"})
    done = await command("workflows", "apply", write(tmp_path, "Twins"))
    assert done.returncode == ExitCode.USAGE and "visitors.yaml:1 name: Several workflows" in done.stderr
    shown = await command("workflows", "show", "Twins")
    assert shown.returncode == ExitCode.USAGE and "ID|NAME: Several workflows" in shown.stderr
