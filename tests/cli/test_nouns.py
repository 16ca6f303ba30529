"""`vedette secrets`, `lists`, `webhooks` and `uploads`, and things by their names."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from settings import ExitCode
from tests.api_server import Api, Person
from tests.cli.conftest import Command, Json
from tests.stacks import CLI, environment


async def with_input(
    api: Api, person: Person, given: bytes, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that reads standard input."""

    def run() -> subprocess.CompletedProcess[bytes]:
        names = {"VEDETTE_URL": api.url, "VEDETTE_API_KEY": person.secret}
        return subprocess.run(
            [sys.executable, str(CLI), *arguments], env=environment(Path("/nowhere"), **names), input=given,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    done = await asyncio.to_thread(run)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def unique(word: str) -> str:
    return f"{word}-{uuid4().hex[:8]}"


async def test_a_secret_is_read_from_standard_input_and_its_value_is_nowhere_shown(
    api: Api, person: Person, read: Json, command: Command
) -> None:
    name = f"TOKEN_{uuid4().hex[:8].upper()}"
    done = await with_input(api, person, b"canary-of-this-test\n", "secrets", "set", name)
    assert (done.returncode, done.stderr) == (0, "") and name in done.stdout
    assert "canary" not in done.stdout
    assert name in [one["name"] for one in (await read("secrets", "list"))["secrets"]]
    assert (await command("secrets", "delete", name)).returncode == 0
    assert name not in (await command("secrets", "list")).stdout


async def test_setting_a_secret_again_replaces_it(api: Api, person: Person, read: Json) -> None:
    name = f"TOKEN_{uuid4().hex[:8].upper()}"
    for value in (b"first", b"second"):
        assert (await with_input(api, person, value, "secrets", "set", name)).returncode == 0
    assert [one["name"] for one in (await read("secrets", "list"))["secrets"]].count(name) == 1


async def test_the_value_of_a_secret_is_no_argument(command: Command) -> None:
    done = await command("secrets", "set", "NAME", "value")
    assert done.returncode == ExitCode.SETTING or done.returncode == 2


async def test_a_list_is_made_filled_shown_and_deleted_by_its_name(command: Command, read: Json) -> None:
    name = unique("offices")
    made = await read("lists", "create", name, "--type", "ip", "--targets", "8.8.8.8,1.1.1.1")
    assert made["target_count"] == 2
    assert [one["id"] for one in await read("lists", "list", "--type", "ip")] == [made["id"]]
    assert (await read("lists", "add", name, "--targets", "9.9.9.9,nonsense"))["added"] == 1
    assert sorted(await read("lists", "show", name)) == ["1.1.1.1", "8.8.8.8", "9.9.9.9"]
    assert (await read("lists", "remove", name, "--targets", "9.9.9.9"))["deleted"] == 1
    assert (await command("lists", "show", made["id"])).stdout.split() != []
    assert (await command("lists", "delete", name)).returncode == 0
    done = await command("lists", "show", name)
    assert done.returncode == 2 and "ID|NAME: There is no such list." in done.stderr


async def test_deleting_a_list_names_the_monitors_that_it_pauses(
    api: Api, command: Command, read: Json
) -> None:
    addresses, watching, resting = unique("addresses"), unique("watching"), unique("resting")
    await read("lists", "create", addresses, "--type", "ip", "--targets", "8.8.8.8")
    made = [
        await read("monitors", "create", name, "--type", "ip", "--list", addresses)
        for name in (watching, resting)
    ]
    await read("monitors", "pause", resting)
    done = await command("lists", "delete", addresses)
    assert done.stdout.splitlines()[1:] == [f"The monitor {watching} ({made[0]['id']}) is paused."]
    plain = await api.person(scopes=["lists"])
    await plain.key.post("/api/lists", json={"name": addresses})
    done = await command("lists", "delete", addresses, VEDETTE_API_KEY=plain.secret)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        0, ["Active monitors that watched it are paused; which ones could not be read."],
    )  # fmt: skip


async def test_adding_nothing_says_what_to_give(command: Command, read: Json) -> None:
    name = unique("empty")
    await read("lists", "create", name, "--type", "domain")
    done = await command("lists", "add", name)
    assert done.returncode == 2 and "--targets: Give at least one target" in done.stderr


async def test_a_monitor_of_a_list_is_known_by_their_names_and_tracks_the_fields_given(
    command: Command, read: Json
) -> None:
    addresses, name = unique("addresses"), unique("watch")
    made = await read("lists", "create", addresses, "--type", "ip", "--targets", "8.8.8.8")
    monitor = await read(
        "monitors", "create", name, "--type", "ip", "--list", addresses,
        "--tracked-fields", "location.city, asn.asn",
    )  # fmt: skip
    assert (monitor["data_source_ref"], monitor["tracked_fields"]) == (
        made["id"],
        ["location.city", "asn.asn"],
    )
    assert (await read("monitors", "pause", name))["status"] == "paused"
    assert (await read("monitors", "show", name))["id"] == monitor["id"]
    early = await command("monitors", "seen", name)
    assert early.returncode == 2 and "No run of the monitor has results yet." in early.stderr
    assert (await command("monitors", "delete", name)).returncode == 0


@pytest.mark.parametrize("noun", ["monitors", "lists"])
async def test_two_objects_of_one_name_are_told_apart_by_id_and_time(
    command: Command, read: Json, noun: str
) -> None:
    name = unique("twice")
    given = ("--type", "ip", "--targets", "8.8.8.8")
    made = [await read(noun, "create", name, *given) for _ in range(2)]
    done = await command(noun, "show", name)
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [f"ID|NAME: Several {noun} are called this. Give one of their ids in its place:"]
        + [f"{one['id']}  created {one['created_at'][:16].replace('T', ' ')}" for one in reversed(made)],
    )
    assert (await command(noun, "delete", made[0]["id"])).returncode == 0
    assert (await command(noun, "show", name)).returncode == 0


async def test_a_webhook_is_made_listed_and_deleted_by_its_url(command: Command, read: Json) -> None:
    url = f"https://{uuid4().hex}.example.com/events"
    made = await read("webhooks", "create", url, "--events", "monitor.*")
    assert made["secret"].startswith("whsec_")
    [listed] = [one for one in (await read("webhooks", "list"))["webhooks"] if one["url"] == url]
    assert listed["events"] == ["monitor.*"]
    rotated = await read("webhooks", "rotate-secret", url)
    assert rotated["secret"] != made["secret"]
    assert (await command("webhooks", "delete", url)).returncode == 0
    assert url not in (await command("webhooks", "list")).stdout


@pytest.fixture
async def file_workflow(person: Person) -> str:
    name = unique("rows")
    steps: list[Any] = [{"id": "t", "type": "transform", "config": {"expression": "trigger"}}]
    body = {"name": name, "trigger": {"type": "file_upload"}, "steps": steps}
    answer = await person.key.post("/api/workflows", json=body)
    assert answer.status_code == 201, answer.text
    return name


async def test_a_file_is_sent_to_a_workflow_by_its_name_and_its_upload_can_be_cancelled(
    command: Command, read: Json, file_workflow: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a\n1\n2\n")
    sent = await read("uploads", "send", file_workflow, str(file))
    assert sent["runs_total"] == 2
    assert (await read("uploads", "show", sent["id"]))["id"] == sent["id"]
    assert json.loads((await command("uploads", "cancel", sent["id"], "--json")).stdout)["id"] == sent["id"]


@pytest.mark.parametrize("noun", ["lists", "monitors"])
async def test_a_file_of_targets_is_imported_and_its_bad_rows_are_named(
    api: Api, person: Person, noun: str
) -> None:
    name, address = unique("file"), f"{uuid4().hex}@example.com"
    body = {"name": name, **({"targets": ["eve@example.com"]} if noun == "monitors" else {})}
    made = await person.key.post(f"/api/{noun}", json=body)
    assert made.status_code == 201
    text = f"name,mail\nAda,{address}\nBob,nobody\n".encode()
    done = await with_input(api, person, text, noun, "import", name, "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "2 rows, targets in mail: 1 added, 0 there already, 1 invalid.", "row 3: nobody: invalid_email",
    ]  # fmt: skip
    done = await with_input(api, person, text, noun, "import", name, "-", "--column", "phone")
    assert done.returncode == ExitCode.USAGE and "--column" in done.stderr
