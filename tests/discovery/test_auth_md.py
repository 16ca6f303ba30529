"""`/auth.md` is true: its commands work in order, and its tables are what routes and settings say."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator

import pytest

from api.http.openapi import operations
from api.pages.auth_md import auth_md, price_of
from models.accounts import keys
from providers.registry import KINDS
from settings import Settings, load
from tests.api_server import PASSWORD, Api, openapi_document, running
from tests.datasets import write_small_datasets
from tests.stacks import vedette

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEPS = [
    "Step 1: Get credentials", "Step 2: Create an API key", "Step 3: Use the credential",
    "Step 4: Available endpoints", "Step 5: Credits", "Step 6: MCP configuration", "Step 7: Errors",
    "Step 8: Rate limits", "Step 9: Revocation",
]  # fmt: skip


def page_of(**environ: str) -> str:
    """The page of a service with these settings."""
    return auth_md(load(environ), openapi_document())


@pytest.fixture(scope="module")
def page() -> str:
    return page_of()


def section(page: str, step: int) -> str:
    return page.split("\n## ")[step]


def rows(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {number for number, row in enumerate(cells) if set(row[0]) <= {"-"}}
    return [row for number, row in enumerate(cells) if not {number, number + 1} & rules]


async def follow(api: Api, page: str, email: str) -> str:
    """Do what the page says, as an agent would: all its commands in one shell. What they printed."""
    script = "\n".join(BLOCK.findall(page)).replace(api.services.settings.address, api.url)
    environ = {"PATH": os.environ["PATH"], "EMAIL": email, "PASSWORD": PASSWORD}
    process = await asyncio.create_subprocess_exec(
        "sh", "-eu", "-c", script, env=environ,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


def check_followed(said: str, email: str) -> None:
    """Each call had the answer that the page tells of."""
    key = json.loads(said[: said.index("}}") + 2])
    assert key["user"]["email"] == email
    assert (key["credential"]["kind"], key["credential"]["scopes"]) == ("key", ["credits", "lookups"])
    assert '"ip_address":"8.8.8.8"' in said
    assert '"balance":' in said
    assert '"code":"not_authenticated"' in said
    assert "# not_authenticated" in said
    assert re.search(r"^ratelimit: ", said, re.IGNORECASE | re.MULTILINE)
    assert '"success":true' in said
    assert said.rstrip().endswith("401")
    assert keys.PREFIX not in said


async def test_where_sign_up_is_open_its_commands_work_in_order(settings: Settings) -> None:
    write_small_datasets(settings.data)
    async with running(settings) as api:
        page = (await api.http.get("/auth.md")).text
        check_followed(await follow(api, page, "open@example.com"), "open@example.com")


@pytest.mark.long
async def test_where_sign_up_is_closed_they_work_with_an_account_that_the_operator_made(
    settings: Settings,
) -> None:
    write_small_datasets(settings.data)
    assert settings.database_url is not None
    url, password = settings.database_url.get_secret_value(), settings.data / "password"
    password.write_text(PASSWORD)
    async with running(settings, signup="closed") as api:
        page = (await api.http.get("/auth.md")).text
        assert "/api/auth/register" not in section(page, 1)
        told = re.findall(r"`vedette ([^`]+) EMAIL`", section(page, 1))
        for command, further in zip(told, (["--password-file", str(password)], []), strict=True):
            arguments = (*command.split(), "closed@example.com", *further)
            done = await asyncio.to_thread(vedette, settings.data, *arguments, DATABASE_URL=url)
            assert done.returncode == 0, done.stderr
        check_followed(await follow(api, page, "closed@example.com"), "closed@example.com")


@pytest.mark.parametrize("signup", ["open", "closed"])
def test_every_curl_stands_in_a_block_that_is_run(signup: str) -> None:
    page = page_of(VEDETTE_SIGNUP=signup)
    commands = re.compile(r"\bcurl -")
    assert len(commands.findall(page)) == len(commands.findall("".join(BLOCK.findall(page)))) > 8


async def test_it_comes_as_markdown_that_caches_may_keep(api: Api) -> None:
    answer = await api.http.get("/auth.md")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=300"
    again = await api.http.get("/auth.md", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_it_has_a_title_an_introduction_and_nine_steps(page: str) -> None:
    assert page.startswith("# ")
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == STEPS


def test_no_place_is_left_to_fill_in(page: str) -> None:
    assert "[[" not in page
    assert len(page.encode()) < 11_000


@pytest.mark.parametrize("named", ["", "/api", "/mcp", "/docs", "/llms.txt", "/openapi.json"])
def test_the_introduction_names_where_things_are(named: str) -> None:
    introduction = section(page_of(VEDETTE_PUBLIC_URL="https://watch.example.com/"), 0)
    assert re.search(rf"https://watch\.example\.com{re.escape(named)}[ ,\n]", introduction)


def test_the_address_in_it_is_the_public_one() -> None:
    page = page_of(VEDETTE_PUBLIC_URL="https://watch.example.com/")
    assert "export VEDETTE_URL='https://watch.example.com'\n" in page
    assert "127.0.0.1" not in page


def test_the_configuration_of_mcp_clients_has_url_and_header() -> None:
    page = page_of(VEDETTE_PUBLIC_URL="https://watch.example.com")
    block = re.search(r"^```json\n(.*?)^```$", section(page, 6), re.MULTILINE | re.DOTALL)
    assert block is not None
    server = json.loads(block[1])["mcpServers"]["vedette"]
    assert server["url"] == "https://watch.example.com/mcp"
    assert server["headers"] == {"Authorization": "Bearer YOUR_KEY"}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"VEDETTE_SIGNUP_CREDITS": "2500"}, "A new account has 2,500 credits."),
        ({"VEDETTE_CREDITS": "off"}, "Credits are switched off here: every price below is 0."),
        ({"VEDETTE_SESSION_HOURS": "3"}, "A session ends after 3 hours."),
        ({"VEDETTE_LIMIT_IP": "7/30"}, "| `/api/agent/ip`, of an account | 7 in 30 s |"),
        ({"VEDETTE_LIMIT_INGEST": "off"}, "| events at an ingest URL, of a workflow | no limit |"),
    ],
    ids=["credits", "no credits", "session", "limit", "no limit"],
)
def test_it_tells_the_settings_in_force(environ: dict[str, str], told: str) -> None:
    assert told in page_of(**environ)


def test_it_has_every_limit_that_can_be_set() -> None:
    settable = [name for name in Settings.model_fields if name.startswith("limit_")]
    rates = {f"VEDETTE_{name.upper()}": f"{11 + n}/60" for n, name in enumerate(settable)}
    told = [row[1] for row in rows(section(page_of(**rates), 8))]
    assert sorted(told) == sorted(f"{11 + n} in 60 s" for n in range(len(settable)))


def test_every_scope_is_named_where_keys_are_made(page: str) -> None:
    assert all(f"`{scope}`" in section(page, 2) for scope in keys.ALL_SCOPES)


def test_every_lookup_stands_with_its_price(page: str) -> None:
    priced = {row[0].strip("`"): row[3] for row in rows(section(page, 4)) if len(row) == 4}
    limited = {
        path for path, _, operation in operations(openapi_document())
        if (path.startswith("/api/agent/") or path.endswith("-search")) and "429" in operation["responses"]
    }  # fmt: skip
    assert priced.keys() == limited
    free = {path for path, price in priced.items() if price == "Free"}
    assert free == {
        path for path in priced if "402" not in openapi_document()["paths"][path]["post"]["responses"]
    }
    assert len(free) == 1 + sum(kind.price == 0 for kind in KINDS.values())


def written_out(cell: str) -> Iterator[tuple[str, str]]:
    """The operations that a cell of abbreviated paths stands for: methods and paths."""
    whole = ""
    for methods, path in re.findall(r"`((?:[A-Z]+ )+)([^`]+)`", cell):
        above, _, words = path.replace("…", whole).rpartition("/")
        whole = whole if "…" in path else path
        for word in words.split(","):
            yield from ((method, f"{above}/{word}") for method in methods.split())


def test_every_other_endpoint_stands_under_its_scope(page: str) -> None:
    told = {
        (row[0].strip("`"), *one)
        for row in rows(section(page, 4))
        if len(row) == 2
        for one in written_out(row[1])
    }
    public = re.search(r"^Without a credential: (.*)$", page, re.MULTILINE)
    assert public is not None
    told |= {("", *one) for one in written_out(public[1])}
    real: set[tuple[str, str, str]] = set()
    for path, method, operation in operations(openapi_document()):
        needed = operation["security"]
        scope = (*next(iter(needed[0].values())), "any")[0] if needed else ""
        scope = "a session" if needed and "session" in needed[0] else scope
        once = "/agent/" not in path or path.replace("/agent/", "/", 1) not in openapi_document()["paths"]
        if once and not price_of(operation) and "discovery" not in operation["tags"]:
            real.add((scope, method.upper(), re.sub(r"\w+_id}", "id}", path)))
    assert told == real
