"""`vedette monitors`, without a worker: the ends of runs are written here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import orjson
import pytest

from cli.monitors import Type
from database import Database
from models.lists.lists import TargetType
from models.monitors import completion, queue, runs
from models.monitors.queue import TargetResult
from settings import ExitCode
from tests.api_server import Api, Person
from tests.cli.conftest import Command
from tests.stacks import eventually

UNKNOWN = "01999999-9999-7999-8999-999999999999"
SINCE = {"after": "2026-11-20T09:00:00Z", "by": "2026-11-22T09:00:00Z"}


@pytest.fixture(scope="module")
def monitors(command: Command) -> Command:
    """Runs a `vedette monitors` command."""
    return lambda *arguments, **names: command("monitors", *arguments, **names)


async def created(command: Command, *arguments: str) -> dict[str, Any]:
    done = await command("create", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def end_run(database: Database, monitor_id: str, found: dict[str, dict[str, Any]]) -> None:
    """End the run of a monitor as a worker does: target → what differs from an answer without changes."""
    async with database.connection() as connection:
        claimed = await queue.claim(connection, 100)
        [run] = [one for one in claimed if str(one.monitor_id) == monitor_id]
    async with database.transaction() as connection:
        results = [
            TargetResult(
                run.run_id, position, run.monitor_id, target, heard="error" not in columns, **columns
            )
            for position, (target, columns) in enumerate(found.items())
        ]
        await queue.record(connection, results)
        await completion.finish(connection, run.run_id)


def text(value: Any) -> str:
    return orjson.dumps(value).decode()


CHANGES = {
    "network.name": {"old": "Google", "new": "Google \x1b[31mLLC"},
    "location.city": {"old": None, "new": "Zürich"},
    "security.lists": {"old": ["a", "b"], "new": ["b", "c"]},
}
DETAILS = {
    "network.name": {"since": SINCE, "sources": ["asn"]},
    "location.city": {"since": SINCE, "sources": ["dbip"]},
    "security.lists": {
        "since": SINCE, "sources": ["lists"], "added": ["c"], "removed": ["a"],
        "changed": [{"old": {"n": 1}, "new": {"n": 2}}],
    },
}  # fmt: skip
FOUND: dict[str, dict[str, Any]] = {
    "8.8.8.8": {"changes": text(CHANGES), "details": text(DETAILS), "data": text({"ip": "8.8.8.8"})},
    "1.1.1.1": {"data": text({"ip": "1.1.1.1"})},
    "9.9.9.9": {"error": text({"code": "all_providers_failed", "message": "No source answered."})},
}


@pytest.fixture(scope="module")
async def watched(monitors: Command, database: Database) -> str:
    """A monitor with one run that has ended; its id."""
    monitor_id = (await created(monitors, "--type", "ip", "--targets", ",".join(FOUND)))["id"]
    assert (await monitors("run", monitor_id)).returncode == 0
    await end_run(database, monitor_id, FOUND)
    return monitor_id


def test_its_types_are_those_of_the_models() -> None:
    assert get_args(Type) == get_args(TargetType)


class TestCreate:
    async def test_targets_are_given_by_commas_and_again(self, monitors: Command) -> None:
        given = ("--targets", "Example.com, example.org", "--targets", "example.net", "--weekly")
        made = await created(monitors, "Ours", "--type", "domain", *given)
        assert (made["name"], made["target_count"], made["frequency"]) == ("Ours", 3, "weekly")

    async def test_a_comma_in_a_companys_name_separates_nothing(self, monitors: Command) -> None:
        made = await created(monitors, "--type", "company", "--targets", "Acme, Inc.")
        assert (made["name"], made["target_count"]) == ("Acme, Inc.", 1)

    async def test_targets_are_read_from_a_file(self, monitors: Command, tmp_path: Path) -> None:
        (tmp_path / "targets").write_text("a@example.com\n\n b@example.com \r\n")
        made = await created(monitors, "--targets-file", str(tmp_path / "targets"))
        assert (made["target_count"], made["frequency"]) == (2, "monthly")

    async def test_a_cron_is_read_in_its_zone(self, monitors: Command) -> None:
        given = ("--cron", "0 9 * * MON", "--timezone", "Europe/Berlin")
        made = await created(monitors, "--targets", "a@example.com", *given)
        assert (made["frequency"], made["cron"], made["timezone"]) == (None, given[1], given[3])

    async def test_a_list_is_watched(self, monitors: Command, person: Person) -> None:
        body = {"name": "Ours", "targets": ["a@example.com"]}
        watched = (await person.key.post("/api/lists", json=body)).json()["id"]
        made = await created(monitors, "--list", watched)
        assert (made["data_source_ref"], made["target_count"]) == (watched, 1)

    async def test_a_dry_run_creates_nothing_and_says_what_is_wrong(
        self, monitors: Command, person: Person
    ) -> None:
        before = (await person.key.get("/api/monitors")).json()["total"]
        done = await monitors("create", "Ours", "--targets", "a@example.com", "--dry-run")
        assert (done.returncode, done.stdout) == (0, "The monitor is valid.\n")
        done = await monitors("create", "--targets", "here", "--dry-run", "--json")
        assert done.returncode == 1
        assert [one["pointer"] for one in json.loads(done.stdout)["errors"]] == ["/targets/0"]
        assert (await person.key.get("/api/monitors")).json()["total"] == before

    async def test_people_are_shown_its_fields(self, monitors: Command) -> None:
        done = await monitors("create", "Ours", "--targets", "a@example.com")
        assert "\nname              Ours\n" in done.stdout and "paused_reason" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("create", "--targets: Give targets, or a list to watch by --list."),
        (f"create --targets a@example.com --list {UNKNOWN}", "--targets: Give targets, or a list"),
        ("create --targets here", "--targets: here: This is not an e-mail address; give"),
        ("create {} --targets a@example.com".format("x" * 201), "NAME: At most 200 characters are allowed."),
        ("create --targets a@example.com --daily --weekly", "--cron: Give one of --hourly, --daily,"),
        ("create --targets a@example.com --daily --cron *", "--cron: Give one of --hourly, --daily,"),
        ("create --targets a@example.com --cron *", "--cron: A cron has five fields"),
        ("create --targets a@example.com --timezone Mars", "--timezone: There is no such time zone."),
        (f"create --list {UNKNOWN}", "--list: There is no such list."),
        ("create --list 17", "--list: There is no such list."),
        (f"show {UNKNOWN}", "ID|NAME: There is no such monitor."),
        ("run 17", "ID|NAME: There is no such monitor."),
        (f"pause {UNKNOWN}", "ID|NAME: There is no such monitor."),
        (f"resume {UNKNOWN}", "ID|NAME: There is no such monitor."),
        (f"delete {UNKNOWN}", "ID|NAME: There is no such monitor."),
        (f"results {UNKNOWN}", "ID|NAME: There is no such monitor."),
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_one_line_that_names_the_option_and_2(
    monitors: Command, arguments: str, said: str
) -> None:
    done = await monitors(*arguments.split(" "))
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert done.stderr.startswith(said)
    assert len(done.stderr.strip().splitlines()) == 1


async def test_very_many_targets_that_do_not_fit_are_counted(monitors: Command) -> None:
    done = await monitors("create", "--targets", ",".join(f"no{number}" for number in range(100)))
    lines = done.stderr.splitlines()
    assert (len(lines), lines[-1]) == (11, "--targets: There are 90 more like these.")


async def test_an_option_that_is_none_ends_with_2(monitors: Command) -> None:
    assert (await monitors("create", "--type", "person", "--targets", "x")).returncode == ExitCode.USAGE


class TestOne:
    async def test_it_is_listed_newest_first(self, monitors: Command) -> None:
        ids = [(await created(monitors, "--targets", "a@example.com"))["id"] for _ in range(2)]
        found = json.loads((await monitors("list", "--json")).stdout)
        assert [one["id"] for one in found["monitors"][:2]] == ids[::-1]
        head, first, *_ = (await monitors("list")).stdout.splitlines()
        assert head.split()[0] == "id" and first.startswith(ids[1])

    async def test_it_is_paused_and_resumed(self, monitors: Command) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        assert json.loads((await monitors("pause", monitor_id, "--json")).stdout)["status"] == "paused"
        assert json.loads((await monitors("resume", monitor_id, "--json")).stdout)["status"] == "active"

    async def test_it_is_deleted(self, monitors: Command) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        assert json.loads((await monitors("delete", monitor_id, "--json")).stdout) == {"status": "deleted"}
        assert (await monitors("show", monitor_id)).returncode == ExitCode.USAGE

    async def test_that_of_another_account_is_not_there(self, monitors: Command, api: Api) -> None:
        other = await api.person()
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        done = await monitors("show", monitor_id, VEDETTE_API_KEY=other.secret)
        assert (done.returncode, done.stderr) == (2, "ID|NAME: There is no such monitor.\n")


class TestRun:
    async def test_a_second_one_beside_the_first_is_refused_with_2(self, monitors: Command) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        assert "is queued: 0 of 1 targets." in (await monitors("run", monitor_id)).stdout
        done = await monitors("run", monitor_id)
        assert done.returncode == ExitCode.USAGE
        assert done.stderr.startswith("ID|NAME: A run of the monitor is under way")

    @pytest.mark.parametrize(
        ("found", "code", "status"), [({}, 0, "completed"), (FOUND["9.9.9.9"], 1, "failed")]
    )
    async def test_its_end_is_waited_for(
        self,
        monitors: Command,
        database: Database,
        person: Person,
        found: dict[str, Any],
        code: int,
        status: str,
    ) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        waiting = asyncio.ensure_future(monitors("run", monitor_id, "--wait", "--json"))

        async def accepted() -> bool:
            async with database.connection() as connection:
                found, _ = await runs.list_some(
                    connection, person.account.id, monitor_id=UUID(monitor_id), limit=1, offset=0
                )
                return bool(found)

        await eventually(accepted, 60, "the run is accepted")
        await end_run(database, monitor_id, {"a@example.com": found})
        done = await waiting
        assert (done.returncode, json.loads(done.stdout)["status"]) == (code, status)


class TestResults:
    async def test_people_see_what_has_changed_and_since_when(self, monitors: Command, watched: str) -> None:
        lines = (await monitors("results", watched)).stdout.splitlines()
        assert [line.split("  ")[0].strip() for line in lines] == [
            "target", "8.8.8.8", "8.8.8.8", "8.8.8.8", "1.1.1.1", "9.9.9.9",
        ]  # fmt: skip
        assert "network.name" in lines[1] and lines[1].endswith("2026-11-20T09:00")
        assert "– → Zürich" in lines[2]
        assert '+ c, - a, {"n": 1} → {"n": 2}' in lines[3]
        assert lines[4].endswith("unchanged") and lines[5].endswith("failed: No source answered.")

    async def test_of_a_list_the_first_items_are_shown(self, monitors: Command, database: Database) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        await monitors("run", monitor_id)
        detail = {"since": SINCE, "sources": ["x"], "added": list(range(1000)), "removed": [], "changed": []}
        changes = {"news": {"old": [], "new": detail["added"]}}
        found = {"changes": text(changes), "details": text({"news": detail})}
        await end_run(database, monitor_id, {"a@example.com": found})
        assert "+ 0, + 1, + 2, + 3, + 4, and 995 more  " in (await monitors("results", monitor_id)).stdout

    async def test_what_would_steer_a_terminal_is_escaped(self, monitors: Command, watched: str) -> None:
        said = (await monitors("results", watched)).stdout
        assert r"Google → Google \x1b[31mLLC" in said and "\x1b" not in said

    async def test_programs_get_whole_answers(self, monitors: Command, watched: str) -> None:
        found = json.loads((await monitors("results", watched, "--json")).stdout)
        assert [one["target"] for one in found] == list(FOUND)
        assert found[0]["changes"] == CHANGES and found[1]["data"] == {"ip": "1.1.1.1"}

    async def test_only_targets_that_have_changed_are_given(self, monitors: Command, watched: str) -> None:
        found = json.loads((await monitors("results", watched, "--changes", "--json")).stdout)
        assert [one["target"] for one in found] == ["8.8.8.8"]

    async def test_the_last_run_with_results_is_taken_and_another_by_its_id(
        self, monitors: Command, database: Database
    ) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        await monitors("run", monitor_id)
        await end_run(database, monitor_id, {"a@example.com": {}})
        second = json.loads((await monitors("run", monitor_id, "--json")).stdout)["id"]
        assert len(json.loads((await monitors("results", monitor_id, "--json")).stdout)) == 1
        assert (await monitors("results", monitor_id, second, "--json")).stdout == "[]\n"

    @pytest.mark.parametrize("run_id", [UNKNOWN, "17"])
    async def test_a_run_that_is_not_there_is_named(
        self, monitors: Command, watched: str, run_id: str
    ) -> None:
        done = await monitors("results", watched, run_id)
        assert (done.returncode, done.stderr) == (2, "RUN: The monitor has no such run.\n")

    async def test_a_monitor_without_results_says_so(self, monitors: Command) -> None:
        monitor_id = (await created(monitors, "--targets", "a@example.com"))["id"]
        done = await monitors("results", monitor_id)
        assert (done.returncode, done.stderr) == (2, "RUN: No run of the monitor has results yet.\n")
