"""Commands that have a worker do something: runs, bulk jobs, deliveries."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from cli.receiver import fault_of
from database import Database
from outbound.signing import new_secret, signed_headers
from settings import ExitCode
from tests.api_server import Api, Person
from tests.automations.conftest import api, client, open_settings, worker
from tests.cli.conftest import Command, Json
from tests.stacks import CLI, environment, eventually

__all__ = ["api", "client", "open_settings", "worker"]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("worker")]

VISITORS = {
    "name": "Visitors",
    "steps": [
        {"id": "where", "type": "ip_lookup", "config": {"field": "trigger.ip"}},
        {"id": "told", "type": "transform", "config": {"expression": "where.location.country_code"}},
    ],
}
SLOW = {"name": "Slow", "steps": [{"id": "long", "type": "delay", "config": {"hours": 1}}]}


@pytest.fixture(scope="module", autouse=True)
async def workflows(person: Person) -> None:
    for definition in (VISITORS, SLOW):
        assert (await person.key.post("/api/workflows", json=definition)).status_code == 201


async def failed_run(command: Command) -> str:
    given = ("--input", '{"ip": "here"}', "--wait", "--json")
    done = await command("workflows", "run", "Visitors", *given)
    assert done.returncode == 1
    return json.loads(done.stdout)["id"]


@asynccontextmanager
async def started(
    api: Api, person: Person, folder: Path, *arguments: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A command that goes on, as a process of its own."""
    names = environment(folder, VEDETTE_URL=api.url, VEDETTE_API_KEY=person.secret)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        os.sys.executable, str(CLI), *arguments, env=names, stdout=pipe, stderr=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(60):
        return (await stream.readline()).decode().rstrip("\n")


class TestRuns:
    async def test_a_run_is_watched_step_by_step_to_its_end(self, command: Command) -> None:
        done = await command("workflows", "run", "Visitors", "--input", '{"ip": "8.8.8.8"}', "--watch")
        assert done.returncode == 0, done.stderr
        assert {"where  completed", "told  completed"} <= set(done.stderr.splitlines())
        assert "status    completed" in done.stdout and done.stdout.endswith("output: US\n")

    async def test_one_that_fails_says_why_and_ends_with_1(self, command: Command) -> None:
        shown = (await command("runs", "show", await failed_run(command))).stdout
        assert "why       where: /field: This is not an IP address" in shown

    async def test_one_whose_worker_was_lost_says_so(self, command: Command, database: Database) -> None:
        run_id = await failed_run(command)
        async with database.connection() as connection:
            await connection.execute(
                "update runs set takeovers = 2, taken_over_at = '2026-11-01T10:20:30Z' where id = %s",
                (run_id,),
            )
        shown = (await command("runs", "show", run_id)).stdout
        assert "taken over  2 times, last at 2026-11-01 10:20, from a worker that was lost" in shown

    async def test_one_that_goes_on_says_what_carries_it(
        self, command: Command, read: Json, api: Api, person: Person, tmp_path: Path
    ) -> None:
        run_id = (await read("workflows", "run", "Slow"))["run_id"]
        async with started(api, person, tmp_path, "runs", "watch", run_id) as watching:
            assert await line_of(watching.stderr) == "long  waiting"
        carrier = (await read("runs", "show", run_id))["carrier"]
        shown = (await command("runs", "show", run_id)).stdout
        what = {"workflow": f"the Temporal workflow run/{run_id}", "shift": "a worker's shift"}[carrier]
        assert f"carried by  {what}" in shown
        assert "carried by" not in (await command("runs", "show", await failed_run(command))).stdout

    async def test_they_are_listed_by_workflow_and_status(self, command: Command, read: Json) -> None:
        run_id = await failed_run(command)
        found = await read("runs", "list", "--workflow", "Visitors", "--status", "failed", "--limit", "1")
        assert [one["id"] for one in found["runs"]] == [run_id]
        assert (await read("runs", "list", "--workflow", "Slow", "--status", "failed"))["runs"] == []

    async def test_a_retry_is_a_run_of_its_own(self, command: Command) -> None:
        run_id = await failed_run(command)
        done = await command("runs", "retry", run_id, "--wait", "--json")
        assert (done.returncode, json.loads(done.stdout)["restarted_from"]) == (1, run_id)

    async def test_a_watched_run_that_is_cancelled_ends_with_1(
        self, command: Command, read: Json, api: Api, person: Person, tmp_path: Path
    ) -> None:
        run_id = (await read("workflows", "run", "Slow"))["run_id"]
        async with started(api, person, tmp_path, "runs", "watch", run_id) as watching:
            assert await line_of(watching.stderr) == "long  waiting"
            assert (await read("runs", "cancel", run_id))["status"] == "cancelled"
            assert await watching.wait() == 1

    async def test_ctrl_c_leaves_the_run_and_says_so_with_130(
        self, command: Command, api: Api, person: Person, tmp_path: Path
    ) -> None:
        async with started(api, person, tmp_path, "workflows", "run", "Slow", "--watch") as watching:
            assert await line_of(watching.stderr) == "long  waiting"
            watching.send_signal(signal.SIGINT)
            assert (await line_of(watching.stderr)).startswith("The run goes on.")
            assert await watching.wait() == 130

    async def test_a_dry_run_shows_each_step(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "input.yaml").write_text("ip: 8.8.8.8\n")
        done = await command("workflows", "test", "Visitors", "--input", f"@{tmp_path / 'input.yaml'}")
        assert done.returncode == 0 and done.stdout.endswith("output: US\n")

    async def test_one_of_which_items_fail_says_how_many(self, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "steps.yaml"
        sums = {"id": "sums", "type": "transform", "for_each": "trigger", "on_error": "continue"}
        file.write_text(json.dumps({"steps": [{**sums, "config": {"expression": "sum(item)"}}]}))
        done = await command("workflows", "test", "Visitors", "--file", str(file), "--input", '[[1], "x"]')
        assert done.returncode == 0 and "items     1 of 2 items failed" in done.stdout, done.stderr

    async def test_a_dry_run_of_other_steps_names_their_lines(self, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "steps.yaml"
        file.write_text("steps:\n- id: a\n  type: nothing\n")
        done = await command("workflows", "test", "Visitors", "--file", str(file))
        assert done.returncode == ExitCode.USAGE and f"{file}:3 steps[0].type: " in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ("runs show 17", "ID: There is no such run."),
            ("runs list --workflow nothing", "--workflow: There is no such workflow."),
            ("runs list --status asleep", "--status"),
            ("workflows run nothing", "ID|NAME: There is no such workflow."),
            ("workflows run Visitors --input {", "--input: This is not JSON."),
            ("workflows run Visitors --input @nowhere", "--input: nowhere cannot be read"),
            ("jobs show 17", "ID: There is no such job."),
        ],
    )
    async def test_what_does_not_fit_names_the_option_and_2(
        self, command: Command, arguments: str, said: str
    ) -> None:
        done = await command(*arguments.split(" "))
        assert done.returncode == ExitCode.USAGE and said in done.stderr


class TestJobs:
    async def test_a_file_is_looked_up_and_the_results_written(
        self, command: Command, tmp_path: Path
    ) -> None:
        file, out = tmp_path / "ips.csv", tmp_path / "out.csv"
        file.write_text("ip,note\n8.8.8.8,resolver\nhere,wrong\n")
        given = ("--type", "ip", "--fields", "location.country_code", "--output", str(out))
        done = await command("jobs", "run", str(file), *given)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines()[-1] == "2 of 2 rows" and "2 of 2 rows, 1 failed" in done.stdout
        head, first, second = out.read_text().splitlines()
        assert head == "ip,note,error,partial,location.country_code"
        assert first == "8.8.8.8,resolver,,false,US" and second.startswith("here,wrong,invalid_ip")

    async def test_what_was_found_is_not_lost_with_its_file(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "ips.csv").write_text("ip\n1.1.1.1\n")
        done = await command("jobs", "run", str(tmp_path / "ips.csv"), "--type", "ip", "-o", "/dev/full")
        assert done.returncode == 2
        assert "No space left on device. The job is done: `vedette jobs results " in done.stderr

    async def test_results_come_out_later_in_another_form(
        self, command: Command, read: Json, tmp_path: Path
    ) -> None:
        (tmp_path / "ips.csv").write_text("ip\n1.1.1.1\n")
        job = await read("jobs", "run", str(tmp_path / "ips.csv"), "--type", "ip")
        done = await command("jobs", "results", job["id"], "--format", "jsonl")
        assert json.loads(done.stdout)["location.country_code"] == "AU"
        assert (await read("jobs", "list", "--limit", "1"))["jobs"][0]["id"] == job["id"]

    @pytest.mark.parametrize(
        ("text", "more", "said"),
        [
            ("a,b\n1,2\n", (), "--column: Row 1: Say in the field column"),
            ("ip\n1.1.1.1\n", ("--column", "x"), "--column: Row 1: The header has no column of this name."),
            ("ip\n1.1.1.1\n", ("--fields", "x"), "--fields: There is no such field"),
            ("ip\n", (), "FILE: "),
            ("ip\n1.1.1.1\n", ("--output", "nowhere/x"), "--output: There is no folder nowhere."),
        ],
        ids=["which", "column", "fields", "empty", "output"],
    )
    async def test_a_file_that_does_not_fit_names_the_option_and_2(
        self, command: Command, tmp_path: Path, text: str, more: tuple[str, ...], said: str
    ) -> None:
        (tmp_path / "x.csv").write_text(text)
        done = await command("jobs", "run", str(tmp_path / "x.csv"), "--type", "ip", *more)
        assert done.returncode == ExitCode.USAGE and done.stderr.startswith(said), done.stderr


class TestEvents:
    async def test_deliveries_are_printed_and_verified_and_the_webhook_goes_at_the_end(
        self, command: Command, api: Api, person: Person, tmp_path: Path
    ) -> None:
        given = ("events", "listen", "--type", "workflow.run.failed", "--json")
        async with started(api, person, tmp_path, *given) as listening:
            url = (await line_of(listening.stderr)).split()[2].rstrip(";")
            async with httpx.AsyncClient(trust_env=False) as stranger:
                answer = await stranger.post(url, content=b'{"event": "forged", "data": {}}')
            forged = json.loads(await line_of(listening.stdout))
            assert (answer.status_code, forged["verified"]) == (401, False)
            run_id = await failed_run(command)
            told = json.loads(await line_of(listening.stdout))
            assert (told["verified"], told["event"]["data"]["run_id"]) == (True, run_id)
            [webhook] = (await person.key.get("/api/webhooks")).json()["webhooks"]
            await eventually(lambda: _delivered(person, webhook["id"]), 30, "the delivery is answered")
            listening.send_signal(signal.SIGINT)
            assert await listening.wait() == 130
        assert (await person.key.get("/api/webhooks")).json()["webhooks"] == []

    async def test_a_port_that_is_taken_is_told(self, command: Command, api: Api) -> None:
        port = api.url.rpartition(":")[2]
        done = await command("events", "listen", "--port", port)
        assert done.returncode == ExitCode.USAGE and done.stderr.startswith(f"--port: {port} cannot be")

    async def test_a_type_that_is_none_is_told(self, command: Command) -> None:
        done = await command("events", "listen", "--type", "nothing")
        assert done.returncode == ExitCode.USAGE and done.stderr.startswith("--type: ")

    async def test_a_service_elsewhere_needs_an_address_that_it_reaches(self, command: Command) -> None:
        done = await command("events", "listen", VEDETTE_URL="https://vedette.invalid")
        assert done.returncode == ExitCode.USAGE and done.stderr.startswith("--url: ")

    async def test_their_types_are_listed(self, command: Command) -> None:
        assert "monitor.run.completed" in (await command("events", "types")).stdout


async def _delivered(person: Person, webhook_id: str) -> bool:
    found = await person.key.get("/api/webhooks/deliveries", params={"webhook_id": webhook_id})
    return [one["status"] for one in found.json()["deliveries"]] == ["delivered"]


SECRET, NOW = new_secret(), 1_800_000_000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"body": b"{}"}, "changed"),
        ({"secret": new_secret()}, "another secret"),
        ({"now": NOW + 301}, "five minutes"),
        ({"now": NOW - 301}, "five minutes"),
        ({"webhook-signature": ""}, "not signed"),
        ({"webhook-timestamp": "soon"}, "time"),
        ({"webhook-timestamp": "9" * 5000}, "time"),
        ({"webhook-id": "other"}, "changed"),
        ({"webhook-signature": "v1,AAAA"}, "changed"),
    ],
    ids=["right", "body", "secret", "old", "to come", "unsigned", "time", "digits", "id", "wrong"],
)
def test_a_delivery_is_right_only_with_the_signature_of_its_sender(
    changes: dict[str, object], said: str
) -> None:
    body = b'{"event": "x"}'
    headers = signed_headers([SECRET, new_secret()], "m1", NOW, body) | changes
    secret, given, now = (changes.get(name) for name in ("secret", "body", "now"))
    fault = fault_of(
        str(secret or SECRET),
        lambda name: str(headers[name]),
        bytes(given or body),
        float(now or NOW),
    )
    assert said in fault and bool(said) == bool(fault)
