"""The programs of docs/recipes/verify-webhooks.md take what we sign, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outbound.signing import new_secret, signed_headers
from tests.documentation import pages
from tests.pinned_packages import run
from tests.programs import find_program

pytestmark = pytest.mark.long

SECRET, OTHER = new_secret(), new_secret()
MESSAGE_ID = "019ab0a2-5f00-7d14-8a61-3e9b5c7d1f20"
BODY = b'{"event":"key.created","data":{"name":"Gr\xc3\xb6\xc3\x9fe \\u0000"}}\n'
_PROGRAMS = {block.language: block.text for block in pages.read("docs/recipes/verify-webhooks.md")}

Headers = dict[str, str]


def _go(folder: Path) -> list[str]:
    # Nothing but the standard library of this very Go, without a network; no compiler for C.
    alone = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    run(find_program("go"), "build", "-o", "verify", "verify.go", cwd=folder, **alone)
    return [str(folder / "verify")]


def _bash(folder: Path) -> list[str]:
    find_program("openssl")
    return [find_program("bash"), str(folder / "verify.bash")]


_LANGUAGES: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "python": ("verify.py", lambda folder: [sys.executable, "-W", "error", str(folder / "verify.py")]),
    "js": ("verify.mjs", lambda folder: [find_program("node"), str(folder / "verify.mjs")]),
    "go": ("verify.go", _go),
    "bash": ("verify.bash", _bash),
}


@pytest.fixture(scope="module", params=["python", pytest.param("js", marks=pytest.mark.node), "go", "bash"])
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the page's program in a language."""
    name, make = _LANGUAGES[request.param]
    folder = tmp_path_factory.mktemp("verifier")
    (folder / name).write_text(_PROGRAMS[request.param], encoding="utf-8")
    return make(folder)


def code(command: list[str], headers: Headers, body: bytes = BODY) -> int:
    """Return with which code the program ends."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    done = subprocess.run(
        [*command, *(headers[name] for name in names)],
        input=body, env=os.environ | {"WEBHOOK_SECRET": SECRET}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == b""
    return done.returncode


def signed(*secrets: str, seconds_ago: int = 0) -> Headers:
    return signed_headers(secrets, MESSAGE_ID, int(time.time()) - seconds_ago, BODY)


def test_the_page_has_four_programs() -> None:
    assert _PROGRAMS.keys() == _LANGUAGES.keys()


@pytest.mark.parametrize("secrets", [(SECRET,), (OTHER, SECRET), (SECRET, OTHER)], ids=["one", "old", "new"])
def test_it_takes_what_is_signed_with_its_secret_also_while_that_is_replaced(
    command: list[str], secrets: tuple[str, ...]
) -> None:
    assert code(command, signed(*secrets)) == 0


def test_it_takes_what_was_under_way_for_four_minutes(command: list[str]) -> None:
    assert code(command, signed(SECRET, seconds_ago=240)) == 0


BAD: dict[str, Callable[[], Headers]] = {
    "another secret": lambda: signed(OTHER),
    "another id": lambda: signed(SECRET) | {"webhook-id": MESSAGE_ID[:-1] + "1"},
    "another time": lambda: signed(SECRET, seconds_ago=1) | {"webhook-timestamp": str(int(time.time()))},
    "an old time": lambda: signed(SECRET, seconds_ago=600),
    "a time ahead": lambda: signed(SECRET, seconds_ago=-600),
    "a time that is none": lambda: signed(SECRET) | {"webhook-timestamp": "now"},
    "no time": lambda: signed(SECRET) | {"webhook-timestamp": ""},
    "no signature": lambda: signed(SECRET) | {"webhook-signature": ""},
    "an empty signature": lambda: signed(SECRET) | {"webhook-signature": "v1,"},
    "another version": lambda: {name: value.replace("v1,", "v2,") for name, value in signed(SECRET).items()},
    "a pattern": lambda: signed(SECRET) | {"webhook-signature": "v1,*"},
}


@pytest.mark.parametrize("headers", BAD.values(), ids=BAD)
def test_it_refuses_bad_headers(command: list[str], headers: Callable[[], Headers]) -> None:
    assert code(command, headers()) == 1


def test_it_refuses_another_body(command: list[str]) -> None:
    assert code(command, signed(SECRET), BODY.strip()) == 1
