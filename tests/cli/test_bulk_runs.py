"""`vedette runs retry-all` and `cancel-all`: all runs of a filter, once their number is confirmed."""

from __future__ import annotations

import json

import pytest

from settings import ExitCode
from tests.api_server import Person
from tests.automations.conftest import api, client, open_settings, worker
from tests.automations.engine import transform
from tests.automations.families import finish
from tests.automations.workflows import create
from tests.cli.conftest import Command

__all__ = ["api", "client", "open_settings", "worker"]

pytestmark = pytest.mark.usefixtures("worker")


@pytest.mark.long
async def test_all_that_fit_are_retried_if_that_is_confirmed(command: Command, person: Person) -> None:
    workflow = await create(person, steps=[transform("bad", "abs(trigger)")])
    await finish(person, workflow, "x")
    where = ["--where", f"workflow_id={workflow['id']}", "--where", "status=failed"]
    asked = await command("runs", "retry-all", *where)
    assert asked.returncode == ExitCode.USAGE
    assert asked.stderr == "--yes: needed where nobody can be asked. Matching runs: 1.\n"
    done = await command("runs", "retry-all", *where, "--yes")
    assert (done.returncode, done.stdout) == (0, "1 of 1 runs are retried.\n"), done.stderr
    none = await command("runs", "cancel-all", "--where", "step=nothing", "--yes", "--json")
    assert json.loads(none.stdout)["total"] == 0


WRONG = {
    "no value": ("status", "--where: 'status' is not NAME=VALUE, such as status=failed."),
    "an unknown name": ("stauts=failed", "Did you mean status?"),
}


@pytest.mark.parametrize(("where", "said"), WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_filter_names_the_option(command: Command, where: str, said: str) -> None:
    refused = await command("runs", "retry-all", "--where", where, "--yes")
    assert refused.returncode == ExitCode.USAGE
    assert refused.stderr.startswith("--where") and said in refused.stderr
