"""`vedette stats` and `vedette activity`."""

from __future__ import annotations

from database import Database
from metrics import Tally
from models.stats import entries
from tests.api_server import Api, Person
from tests.cli.conftest import Command, Json
from tests.runs.workflows import create


async def test_figures_and_activity_are_printed(
    person: Person, database: Database, command: Command, read: Json
) -> None:
    workflow = await create(person, name="shop")
    async with database.connection() as connection:
        tally = Tally(person.account.id, "runs", workflow, "completed", 1500)
        await entries.add(connection, [tally])
    lines = (await command("stats", "--window", "2h")).stdout.splitlines()
    assert lines[0].split(maxsplit=1) == ["runs", "1,500 completed"]
    assert lines[-1].split() == ["shop", "1,500", "1,500", "completed", "–"]
    assert (await read("stats", "--by", "none"))["totals"]["runs"]["completed"] == 1500
    assert "shop" in (await command("activity", "--limit", "3")).stdout
    assert (await read("activity"))["entries"][0]["outcome"] == "workflow.created"


async def test_figures_without_groups_say_which_groups_are_missing(command: Command, api: Api) -> None:
    nobody = await api.person()
    done = await command("stats", "--by", "error_code", VEDETTE_API_KEY=nobody.secret)
    assert done.stdout.splitlines()[0].split() == ["runs", "–"]
    assert done.stdout.splitlines()[-1] == "There are no figures by error code."


async def test_a_window_that_is_too_long_names_the_option(command: Command) -> None:
    done = await command("stats", "--window", "90d")
    assert (done.returncode, "--window" in done.stderr) == (2, True)
