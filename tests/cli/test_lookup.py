"""`vedette lookup`."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import get_args

import pytest

from cli.lookup import Kind
from models.jobs.jobs import JobType
from settings import ExitCode, Settings
from tests.api_server import Api, Person, running
from tests.cli.conftest import Command, Json
from tests.datasets import write_small_datasets
from tests.stacks import CLI, environment


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    write_small_datasets(settings.data)
    async with running(settings) as served:
        yield served


def test_its_kinds_are_those_of_the_service_and_another_word() -> None:
    assert set(get_args(Kind)) == {*get_args(JobType), "breaches"}


async def test_a_person_sees_each_value_with_its_sources(command: Command) -> None:
    lines = (await command("lookup", "ip", "8.8.8.8")).stdout.splitlines()
    assert lines[0].split() == ["field", "value", "source"]
    [country] = [line.split() for line in lines if line.startswith("location.country_code ")]
    assert country == ["location.country_code", "US", "dbip"]
    assert lines[-1].startswith("0 credits")


async def test_what_is_not_known_is_left_out(command: Command, read: Json) -> None:
    assert (await read("lookup", "ip", "8.8.8.8"))["threat"]["abuse_score"] is None
    assert "threat.abuse_score" not in (await command("lookup", "ip", "8.8.8.8")).stdout


async def test_programs_get_the_answer_of_the_api(read: Json, person: Person) -> None:
    answer = await read("lookup", "ip", "8.8.8.8")
    told = (await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})).json()
    assert answer.keys() == told.keys() and answer["location"] == told["location"]


async def test_fields_prune_the_answer(read: Json) -> None:
    answer = await read("lookup", "ip", "8.8.8.8", "--fields", "asn,location.country_code")
    assert answer["location"] == {"country_code": "US"} and "security" not in answer


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ("validate a@", "validity", "invalid"),
        ("phone 030123456 --country DE", "phone", "+4930123456"),
        ("ip 8.8.8.8 --fresh", "ip_address", "8.8.8.8"),
    ],
)
async def test_each_kind_has_its_route_and_options(
    read: Json, arguments: str, field: str, value: str
) -> None:
    assert (await read("lookup", *arguments.split()))[field] == value


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("ip here", "TARGET: "),
        ("breach here", "TARGET: "),
        ("breaches here", "TARGET: "),
        ("validate", "Missing argument 'TARGET'"),
        ("bird x", "KIND"),
        ("ip 8.8.8.8 --fields nothing", "--fields: There is no such field"),
        ("ip 8.8.8.8 --limit 3", "--limit: A lookup of kind ip has no such option."),
        ("company Acme --limit 1000", "--limit: "),
        ("darkweb x --offset 1000000", "--offset: "),
        ("phone 123 --country Germany", "--country: "),
    ],
)
async def test_what_does_not_fit_names_the_option_and_2(command: Command, arguments: str, said: str) -> None:
    done = await command("lookup", *arguments.split())
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr and "Traceback" not in done.stderr


async def test_sources_that_nobody_could_ask_are_told_with_10(command: Command) -> None:
    done = await command("lookup", "websearch", "vedette")
    assert done.returncode == ExitCode.SERVICE and "no_provider" in done.stderr


def on_a_terminal(names: dict[str, str], *arguments: str) -> str:
    """Return what a command writes to a terminal of 100 columns."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(CLI), *arguments], env=names, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    said = b""
    try:
        while chunk := os.read(master, 65536):
            said += chunk
    except OSError:
        pass  # how the end of a terminal shows
    finally:
        os.close(master)
    assert process.wait(60) == 0, said
    return said.decode()


@pytest.mark.parametrize("colours", [True, False])
async def test_a_terminal_gets_colours_unless_they_are_not_wanted(
    api: Api, person: Person, tmp_path_factory: pytest.TempPathFactory, colours: bool
) -> None:
    names = environment(
        tmp_path_factory.mktemp("nothing"), VEDETTE_URL=api.url, VEDETTE_API_KEY=person.secret,
        TERM="xterm-256color", COLUMNS="100",
    )  # fmt: skip
    names.pop("NO_COLOR", None)
    names |= {} if colours else {"NO_COLOR": "1"}
    said = await asyncio.to_thread(on_a_terminal, names, "lookup", "ip", "8.8.8.8")
    assert "location.country_code" in said
    assert ("\x1b[36m" in said) == colours


async def test_sources_of_an_unknown_kind_are_a_wrong_option(command: Command) -> None:
    done = await command("providers", "--kind", "zz")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith("--kind: zz is no kind of lookup: give breach, company, darkweb, domain, ")
    listed = (await command("providers", "--kind", "ip")).stdout
    assert listed.splitlines()[1].startswith("ip")
