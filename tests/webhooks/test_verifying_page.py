"""The receivers of docs/webhooks.md take what we sign, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from models.events.event_types import EVENT_TYPES
from outbound.signing import new_secret, signed_headers
from tests.pinned_packages import run
from tests.stacks import free_port

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "webhooks.md").read_text()
SECRET, OTHER = new_secret(), new_secret()
MESSAGE_ID = "019ab0a2-5f00-7d14-8a61-3e9b5c7d1f20"
BODY = json.dumps(EVENT_TYPES["key.created"].example).encode()

Headers = dict[str, str]


@dataclass(frozen=True)
class Receiver:
    """One that runs; `output` is what it has said."""

    http: httpx.Client
    output: Path

    def status(self, headers: Headers, body: bytes = BODY) -> int:
        """Return what it answers to this request."""
        return self.http.post("/hooks", content=body, headers=headers).status_code


def block(language: str) -> str:
    """The one code block in this language below "Verifying"."""
    section = PAGE.partition("\n## Verify a signature\n")[2].partition("\n## ")[0]
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return code


def python(folder: Path) -> list[str]:
    (folder / "receiver.py").write_text(block("python"))
    return [sys.executable, "-W", "error", str(folder / "receiver.py")]


def javascript(folder: Path) -> list[str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (folder / "receiver.mjs").write_text(block("js"))
    return [node, str(folder / "receiver.mjs")]


def go(folder: Path) -> list[str]:
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("go is not installed")
    (folder / "receiver.go").write_text(block("go"))
    # Nothing but the standard library of this very Go, without a network; no compiler for C.
    alone = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    run(compiler, "build", "-o", "receiver", "receiver.go", cwd=folder, **alone)
    return [str(folder / "receiver")]


@contextmanager
def started(command: list[str], output: Path, port: int, secret: str) -> Generator[subprocess.Popen[bytes]]:
    environment = os.environ | {"WEBHOOK_SECRET": secret, "PORT": str(port)}
    with output.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None and time.monotonic() < deadline, output.read_text()
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)


@pytest.fixture(
    scope="module",
    params=[python, pytest.param(javascript, marks=pytest.mark.node), go],
    ids=["python", "javascript", "go"],
)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return request.param(tmp_path_factory.mktemp("receiver"))


@pytest.fixture(scope="module")
def receiver(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Generator[Receiver]:
    output, port = tmp_path_factory.mktemp("output") / "output", free_port()
    with (
        started(command, output, port, SECRET) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
    ):
        wait_until_it_listens(process, port, output)
        yield Receiver(http, output)


def signed(*secrets: str, seconds_ago: int = 0, message_id: str = MESSAGE_ID) -> Headers:
    return signed_headers(secrets, message_id, int(time.time()) - seconds_ago, BODY)


def test_it_takes_what_is_signed_with_its_secret(receiver: Receiver) -> None:
    assert receiver.status(signed(SECRET)) == 204


@pytest.mark.parametrize("secrets", [(OTHER, SECRET), (SECRET, OTHER)], ids=["its_is_old", "its_is_new"])
def test_it_takes_what_is_signed_with_two_secrets_of_which_it_has_one(
    receiver: Receiver, secrets: tuple[str, ...]
) -> None:
    assert receiver.status(signed(*secrets)) == 204


def test_it_takes_what_was_under_way_for_four_minutes(receiver: Receiver) -> None:
    assert receiver.status(signed(SECRET, seconds_ago=240)) == 204


def test_it_reads_the_event_of_what_it_takes(receiver: Receiver) -> None:
    message_id = "019ab0a2-0000-7000-8000-000000000001"
    assert receiver.status(signed(SECRET, message_id=message_id)) == 204
    assert f"{message_id} key.created" in receiver.output.read_text()


BAD_HEADERS: dict[str, Callable[[], Headers]] = {
    "another secret": lambda: signed(OTHER),
    "another id": lambda: signed(SECRET) | {"webhook-id": MESSAGE_ID[:-1] + "1"},
    "another time": lambda: signed(SECRET, seconds_ago=1) | {"webhook-timestamp": str(int(time.time()))},
    "an old time": lambda: signed(SECRET, seconds_ago=600),
    "a time ahead": lambda: signed(SECRET, seconds_ago=-600),
    "no time": lambda: signed(SECRET) | {"webhook-timestamp": ""},
    "a time that is none": lambda: signed(SECRET) | {"webhook-timestamp": "now"},
    "no signature": lambda: signed(SECRET) | {"webhook-signature": ""},
    "an empty signature": lambda: signed(SECRET) | {"webhook-signature": "v1,"},
    "another version": lambda: {name: value.replace("v1,", "v2,") for name, value in signed(SECRET).items()},
    "signatures that are none": lambda: signed(SECRET) | {"webhook-signature": "v1 , v1,é v1,ab== ,"},
    "no headers": dict,
}


@pytest.mark.parametrize("headers", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_it_refuses_a_request_with_bad_headers(receiver: Receiver, headers: Callable[[], Headers]) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers().items()]
    assert receiver.http.post("/hooks", content=BODY, headers=encoded).status_code == 401


def test_it_refuses_another_body(receiver: Receiver) -> None:
    assert receiver.status(signed(SECRET), BODY.replace(b"key.created", b"key.revoked")) == 401


def test_it_outlives_a_request_that_breaks_off(receiver: Receiver) -> None:
    address = (receiver.http.base_url.host, receiver.http.base_url.port)
    with socket.create_connection(address) as client:
        client.sendall(b"POST /hooks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nhalf")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes with a reset
    assert receiver.status(signed(SECRET)) == 204


@pytest.mark.parametrize("secret", ["", "bm90aGluZw=="])
def test_it_does_not_start_without_a_secret(command: list[str], tmp_path: Path, secret: str) -> None:
    with started(command, tmp_path / "output", free_port(), secret) as process:
        assert process.wait(60) != 0
