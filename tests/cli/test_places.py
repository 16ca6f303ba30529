"""Where the commands of developers find the service, and what they say where they cannot use it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from embedded import folder
from embedded.folder import RunningStack
from embedded.process import command_line
from models.accounts.keys import ALL_SCOPES
from settings import ExitCode, unknown_names
from tests.api_server import Api, Person
from tests.cli.conftest import Command
from tests.stacks import free_port, vedette

LOOKUP = ("lookup", "ip", "10.0.0.1")
KEY = "vedette_live_" + "x" * 32
Answer = Callable[[int], bytes]


def pretend_stack(data: Path, url: str, key: str | None) -> None:
    """A data folder over which this process seems to be a stack."""
    data.mkdir(parents=True, exist_ok=True)
    pid = folder.os.getpid()
    folder.record(data, RunningStack(pid, command_line(pid), url, "postgresql://x", "x:1"))
    if key is not None:
        (data / "first-account.json").write_text(json.dumps({"api_key": key}))


async def run(data: Path, *arguments: str, **names: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(vedette, data, *arguments, **names)


def problem(status: int, code: str, *headers: str) -> bytes:
    body = json.dumps({"code": code, "message": "Slow down.", "request_id": "r1"}).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def answering(answer: Answer) -> AsyncGenerator[str]:
    """A server that gives these very bytes to the n-th request; its URL."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.write(answer(asked))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class TestPlace:
    async def test_the_environment_names_it(self, command: Command) -> None:
        done = await command(*LOOKUP, "--json")
        assert json.loads(done.stdout)["ip_address"] == "10.0.0.1"

    async def test_a_slash_after_the_address_is_none(self, command: Command, api: Api) -> None:
        assert (await command(*LOOKUP, VEDETTE_URL=f"{api.url}/")).returncode == 0

    async def test_a_key_can_stand_in_a_file(self, command: Command, person: Person, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(f"{person.secret}\n")
        names = {"VEDETTE_API_KEY": "", "VEDETTE_API_KEY_FILE": str(tmp_path / "key")}
        assert (await command(*LOOKUP, **names)).returncode == 0

    async def test_else_it_is_the_stack_over_the_data_folder_with_its_first_key(
        self, api: Api, person: Person, tmp_path: Path
    ) -> None:
        pretend_stack(tmp_path, api.url, person.secret)
        assert (await run(tmp_path, *LOOKUP)).returncode == 0

    async def test_the_key_of_a_stack_goes_to_no_other_address(self, api: Api, tmp_path: Path) -> None:
        pretend_stack(tmp_path, "http://127.0.0.1:9", KEY)
        done = await run(tmp_path, *LOOKUP, VEDETTE_URL=api.url)
        assert done.returncode == ExitCode.SETTING
        assert "VEDETTE_API_KEY is not set" in done.stderr and "vedette keys create" in done.stderr

    async def test_without_any_the_fix_is_told(self, tmp_path: Path) -> None:
        done = await run(tmp_path, *LOOKUP)
        assert done.returncode == ExitCode.SETTING
        assert "VEDETTE_URL is not set" in done.stderr and "`vedette up`" in done.stderr

    async def test_a_stack_whose_first_key_is_gone_needs_another(self, tmp_path: Path) -> None:
        pretend_stack(tmp_path, "http://127.0.0.1:9", None)
        done = await run(tmp_path, *LOOKUP)
        assert done.returncode == ExitCode.SETTING
        assert "first-account.json has no key" in done.stderr

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("VEDETTE_URL", "127.0.0.1:8000"),
            ("VEDETTE_URL", "ftp://127.0.0.1"),
            ("VEDETTE_URL", "http://"),
            ("VEDETTE_URL", "http://127.0.0.1:many"),
            ("VEDETTE_URL", "http://me:hush@127.0.0.1"),
            ("VEDETTE_URL", "http://127.0.0.1/?x"),
            ("VEDETTE_URL", "http://a..b"),
            ("VEDETTE_URL", "http://127.0.0.1:9/a\tb"),
            ("VEDETTE_URL", f"http://{'a' * 64}.example"),
            ("VEDETTE_API_KEY", "two words"),
            ("VEDETTE_API_KEY", "schlüssel"),
            ("VEDETTE_API_KEY_FILE", "/nowhere"),
        ],
    )
    async def test_what_cannot_be_one_names_the_setting(self, tmp_path: Path, name: str, value: str) -> None:
        done = await run(tmp_path, *LOOKUP, **{"VEDETTE_URL": "http://127.0.0.1:9", name: value})
        assert done.returncode == ExitCode.SETTING
        assert done.stderr.startswith(f"{name}: ") and "hush" not in done.stderr

    async def test_a_proxy_that_cannot_be_used_is_told(self, tmp_path: Path) -> None:
        names = {"VEDETTE_URL": "https://vedette.invalid", "VEDETTE_API_KEY": KEY}
        done = await run(tmp_path, *LOOKUP, **names, ALL_PROXY="socks5://127.0.0.1:9")
        assert done.returncode == ExitCode.SETTING
        assert "Traceback" not in done.stderr and "socksio" in done.stderr

    def test_their_names_are_no_typing_errors(self) -> None:
        names = dict.fromkeys(("VEDETTE_URL", "VEDETTE_API_KEY", "VEDETTE_API_KEY_FILE"), "x")
        assert unknown_names(names, []) == {}

    async def test_a_key_over_http_to_another_machine_is_warned_of(self, tmp_path: Path) -> None:
        names = {"VEDETTE_URL": "http://vedette.invalid", "VEDETTE_API_KEY": KEY}
        done = await run(tmp_path, *LOOKUP, **names)
        assert "VEDETTE_URL is http: whoever is on the way to vedette.invalid reads" in done.stderr


class TestRefusals:
    async def test_a_service_that_is_not_reached_ends_with_10(self, command: Command) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        done = await command(*LOOKUP, VEDETTE_URL=url)
        assert done.returncode == ExitCode.SERVICE
        assert url in done.stderr and "Connection refused" in done.stderr and "vedette up" in done.stderr

    async def test_a_key_that_is_not_accepted_ends_with_11(self, command: Command) -> None:
        done = await command(*LOOKUP, VEDETTE_API_KEY=KEY)
        assert done.returncode == ExitCode.REFUSED
        assert "does not accept the key of VEDETTE_API_KEY" in done.stderr and KEY not in done.stderr

    async def test_a_scope_that_lacks_is_named(self, command: Command, api: Api) -> None:
        other = await api.person(scopes=ALL_SCOPES - {"lookups"})
        done = await command(*LOOKUP, VEDETTE_API_KEY=other.secret)
        assert done.returncode == ExitCode.REFUSED
        assert "lookups" in done.stderr and "vedette keys create --scope" in done.stderr

    async def test_credits_that_lack_are_counted(self, command: Command, api: Api) -> None:
        other = await api.person(credits=0)
        done = await command("lookup", "domain", "example.com", VEDETTE_API_KEY=other.secret)
        assert done.returncode == ExitCode.REFUSED
        assert "1 needed, 0 there" in done.stderr and "vedette credits grant" in done.stderr

    async def test_too_many_requests_are_waited_for(self, command: Command) -> None:
        found = json.dumps({"balance": 7}).encode()
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-Request-Id: r1\r\nContent-Length: %d\r\n\r\n%b"
        ok = head % (len(found), found)

        def answer(asked: int) -> bytes:
            return problem(429, "rate_limited", "Retry-After: 0") if asked == 1 else ok

        async with answering(answer) as url:
            done = await command("credits", "show", VEDETTE_URL=url)
        assert (done.returncode, done.stdout) == (0, "balance  7\n")
        assert done.stderr == "Slow down. Trying again in 1 s (1 of 3).\n"

    async def test_too_long_a_wait_is_told_instead(self, command: Command) -> None:
        answer = problem(429, "rate_limited", "Retry-After: 3600")
        async with answering(lambda _: answer) as url:
            done = await command("credits", "show", VEDETTE_URL=url)
        assert (done.returncode, done.stderr) == (10, "Slow down. (rate_limited, request r1)\n")

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
            b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n[]",
            b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello",
            b"nothing of the kind\r\n\r\n",
        ],
        ids=["text", "JSON", "no problem", "redirect", "cut", "no HTTP"],
    )
    async def test_what_is_no_vedette_is_told(self, command: Command, answer: bytes) -> None:
        async with answering(lambda _: answer) as url:
            done = await command("credits", "show", VEDETTE_URL=url)
        assert done.returncode == ExitCode.SERVICE
        assert f"The service at {url}" in done.stderr and "Is VEDETTE_URL right" in done.stderr
