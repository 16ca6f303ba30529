"""`vedette workflows copy`: workflows of templates, and secrets that stand in no argument."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.api_server import Api, Person
from tests.cli.conftest import Command
from tests.stacks import CLI, environment


async def copy(
    api: Api, person: Person, folder: Path, *arguments: str, typed: str
) -> subprocess.CompletedProcess[str]:
    """Copy a template with this on standard input."""
    names = environment(folder, VEDETTE_URL=api.url, VEDETTE_API_KEY=person.secret)
    return await asyncio.to_thread(
        subprocess.run, [sys.executable, str(CLI), "workflows", "copy", *arguments],
        env=names, input=typed, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


async def secret_names(person: Person) -> list[str]:
    answer = await person.key.get("/api/workflows/secrets")
    return [one["name"] for one in answer.json()["secrets"]]


async def test_a_copy_is_made_and_says_what_it_lacks(command: Command) -> None:
    done = await command("workflows", "copy", "failed-runs", "--name", "Failures")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The workflow Failures (") and "is draft." in done.stdout
    assert "DEAD_LETTER_URL" in done.stdout and '"secrets"' in done.stdout


async def test_secrets_come_by_standard_input_a_line_each(api: Api, person: Person, tmp_path: Path) -> None:
    names = ("--secret", "CRM_TOKEN", "--secret", "CRM_CONTACTS_URL")
    typed = "a token\nhttps://example.com/contacts\n"
    done = await copy(api, person, tmp_path, "enrich-crm-contact", *names, typed=typed)
    assert done.returncode == 0, done.stderr
    assert "is active." in done.stdout and "a token" not in done.stdout + done.stderr
    assert {"CRM_TOKEN", "CRM_CONTACTS_URL"} <= {*await secret_names(person)}
    again = await copy(api, person, tmp_path, "enrich-crm-contact", *names, typed=typed)
    assert again.returncode != 0 and "--secret: The account has" in again.stderr


async def test_a_secret_without_a_value_is_refused(api: Api, person: Person, tmp_path: Path) -> None:
    done = await copy(api, person, tmp_path, "failed-runs", "--secret", "DEAD_LETTER_URL", typed="")
    assert done.returncode != 0 and "--secret: There is no value for DEAD_LETTER_URL" in done.stderr
