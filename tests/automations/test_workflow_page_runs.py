"""The workflows of docs/workflows.md do what the tables below them say: each is run, row by row."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from aiohttp import web

from language.steps import Step
from settings import ProviderSettings
from tests.api_server import Api, Person
from tests.automations import sources
from tests.automations.engine import Endpoint, until
from tests.automations.workflows import create, post
from tests.company.fixture_servers import serving

pytestmark = pytest.mark.long

live_settings, stand_ins = sources.live_settings, sources.providers

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "workflows.md").read_text()
BEFORE = "0199c1f0-7d3a-7000-8000-5a1f00000001"
"""The id that stands for that of the workflow before on the page."""

Row = dict[str, str]


@dataclass(frozen=True)
class Example:
    """A workflow of the page, the rows of the table below it, and the name of the workflow that it uses."""

    document: dict[str, Any]
    rows: list[Row]
    before: str | None

    @property
    def name(self) -> str:
        return self.document["name"]


def table(text: str) -> list[Row]:
    """The rows of the table that a text begins with, each by the names of its columns."""
    lines = text.strip().partition("\n\n")[0].splitlines()
    if not lines or not lines[0].startswith("| "):
        return []
    cells = [[cell.strip() for cell in re.split(r"(?:^| )\|(?= |$)", line)[1:-1]] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def examples() -> Iterator[Example]:
    """The whole workflows of the page, those that do something."""
    before = None
    for block, after in re.findall(
        r"^```json\n(.*?)^```\n(.*?)(?=^```|^#|\Z)", PAGE, re.MULTILINE | re.DOTALL
    ):
        document = json.loads(block)
        if "steps" in document:
            yield Example(document, table(after), before if BEFORE in block else None)
            before = document["name"]


EXAMPLES = {example.name: example for example in examples()}
COLUMNS = {"Input", "Endpoint answers", "Posted", "Output", "Sent", "Status", "Error", "Then"}


_JSON = re.compile(r"""[{\["\d-]|(null|true|false)$""")


def values(cell: str) -> list[Any]:
    """Return what a cell says in code: each is JSON, or a word."""
    found: list[str] = re.findall(r"`([^`]+)`", cell)
    return [json.loads(one) if _JSON.match(one) else one for one in found]


def fits(expected: Any, found: Any) -> bool:
    """Whether something is as the page says it; "…" is anything, as a member of an object any others."""
    match expected, found:
        case "…", _:
            return True
        case dict(), dict():
            return _members_fit(cast("dict[str, Any]", expected), cast("dict[str, Any]", found))
        case list(), list():
            shown, given = cast("list[Any]", expected), cast("list[Any]", found)
            return len(shown) == len(given) and all(map(fits, shown, given))
        case _:
            return type(expected) is type(found) and expected == found


def _members_fit(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    names = expected.keys() - {"…"}
    same = "…" in expected or names == found.keys()
    return same and all(name in found and fits(expected[name], found[name]) for name in names)


@pytest.fixture(scope="module")
async def providers(stand_ins: dict[str, ProviderSettings]) -> AsyncGenerator[dict[str, ProviderSettings]]:
    """Serve sources of every kind of lookup, domains too."""
    async with AsyncExitStack() as stack:
        domains = await stack.enter_async_context(serving("domain"))
        domains.say("rdapdomain", "ok")[0]["query"] = {}
        yield stand_ins | {"rdapdomain": domains.providers["rdapdomain"]}


class Running:
    """Runs the workflows of the page for one person, with a receiver in place of all hosts."""

    def __init__(self, api: Api, person: Person, receiver: Endpoint) -> None:
        self.api, self.person, self.receiver = api, person, receiver
        self.made: dict[str, dict[str, Any]] = {}

    async def create(self, example: Example) -> dict[str, Any]:
        """Save the workflow of an example, after the one that it uses, with the secrets that it names."""
        if example.before:
            await self.create(EXAMPLES[example.before])
        text = json.dumps(example.document, ensure_ascii=False)
        for name in set(re.findall(r"secrets\.(\w+)", text)):
            stored = await self.person.key.post(
                "/api/workflows/secrets", json={"name": name, "value": "s3cret"}
            )
            assert stored.status_code == 201, stored.text
        text = re.sub(r"https://(\w+)\.example\.com", rf"{self.receiver.url}/\1", text)
        if example.before:
            text = text.replace(BEFORE, self.made[example.before]["id"])
        self.made[example.name] = await create(
            self.person, **({"trigger": {"type": "manual"}} | json.loads(text))
        )
        return self.made[example.name]

    async def start(self, workflow: dict[str, Any], row: Row) -> dict[str, Any]:
        """Begin the run of a row."""
        [given] = values(row["Input"]) or [None]
        answers = [str(answer) for answer in values(row.get("Endpoint answers", ""))]
        self.receiver.requests.clear()
        self.receiver.answer = lambda _: web.json_response(
            {"ok": True}, status=int(answers.pop(0) if answers else 200)
        )
        if workflow["trigger"]["type"] == "webhook":
            started = await post(self.api, workflow["webhook_url"], json=given)
        else:
            started = await self.person.key.post(
                f"/api/workflows/{workflow['id']}/run", json={"input": given}
            )
        assert started.status_code == 202, started.text
        for body in values(row.get("Posted", "")):
            waiting = await self.seen(started.json()["run_id"], "waiting")
            [url] = waiting["resume_urls"].values()
            assert (await post(self.api, url, json=body)).status_code == 202
        return await self.seen(started.json()["run_id"], *values(row.get("Status", "")))

    async def seen(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """The run once it has one of these statuses, or has ended."""

        async def look() -> Any:
            run = (await self.person.key.get(f"/api/workflows/runs/{run_id}")).json()
            return run if run["status"] in (statuses or ("completed", "failed", "cancelled")) else None

        return await until(look)

    async def following(self, run_id: str, example: Example) -> dict[str, Any]:
        """The run that a failure has begun, once it has ended."""
        assert example.before
        path = f"/api/workflows/runs?workflow_id={self.made[example.before]['id']}&include=output"

        async def look() -> Any:
            found = (await self.person.key.get(path)).json()["runs"]
            return [one for one in found if one["parent_run_id"] == run_id and one["status"] == "completed"]

        [run] = await until(look)
        return run


@pytest.fixture
def running(api: Api, person: Person, receiver: Endpoint, worker: None) -> Running:
    return Running(api, person, receiver)


@pytest.fixture(scope="module")
async def person(api: Api) -> Person:
    return await api.person(credits=1000)


def sent(receiver: Endpoint) -> list[Any]:
    """The bodies that came to the receiver."""
    return [json.loads(one["body"]) for one in receiver.requests]


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_workflow_gives_what_the_table_below_it_says(running: Running, name: str) -> None:
    example = EXAMPLES[name]
    workflow = await running.create(example)
    for row in example.rows:
        run = await running.start(workflow, row)
        told = f"{row['Input']}: {json.dumps(run, ensure_ascii=False)}"
        [code] = values(row.get("Error", "")) or [None]
        assert (run["error"] and run["error"]["code"]) == code, told
        for output in values(row.get("Output", "")):
            assert fits(output, run["output"]), told
        if "Sent" in row:
            assert fits(values(row["Sent"]), sent(running.receiver)), sent(running.receiver)
        for output in values(row.get("Then", "")):
            assert fits(output, (await running.following(run["id"], example))["output"]), told
    await running.person.key.delete(f"/api/workflows/{workflow['id']}?cancel_runs=true")


INGEST = (Path(__file__).resolve().parents[2] / "docs" / "ingest.md").read_text()


async def test_a_sender_gets_what_the_table_of_respond_says(running: Running) -> None:
    block, after = re.findall(
        r'^```json\n({\n.*?"respond".*?)^```\n(.*?)^#', INGEST, re.MULTILINE | re.DOTALL
    )[0]
    workflow = await create(running.person, **json.loads(block))
    rows = table(after.partition("`?wait=20`:")[2])
    for row in rows:
        answer = await post(
            running.api, f"{workflow['webhook_url']}?wait=20", json=json.loads(row["Body"].strip("`"))
        )
        assert (str(answer.status_code), answer.json()) == (
            row["Status"],
            json.loads(row["Answer"].strip("`")),
        )
    assert rows


def test_every_workflow_has_a_table_with_rows() -> None:
    assert {name for name, example in EXAMPLES.items() if not example.rows} == set()
    assert {column for example in EXAMPLES.values() for row in example.rows for column in row} <= COLUMNS


def test_every_type_of_step_is_run() -> None:
    models: tuple[Any, ...] = get_args(get_args(Step)[0])
    known = {name for model in models for name in get_args(model.model_fields["type"].annotation)}
    shown = {step["type"] for example in EXAMPLES.values() for step in example.document["steps"]}
    assert known - shown == set()
