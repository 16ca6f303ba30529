"""Forms with a file: read from the wire to disk, refused as soon as they are wrong, the same for a repeat."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import httpx
import pytest
from fastapi import APIRouter, Depends, Request

from api.app import create_app
from api.deps import Caller, require_scope
from api.http import json_body, multipart
from api.http.idempotency import Idempotent
from api.http.json_body import StrictRequest
from api.http.multipart import MAX_FILE_BYTES, Form, reading
from api.http.strict_route import StrictRoute
from models.errors import NotFound
from models.identifiers import new_id
from settings import Settings
from tests.api_server import Api, Person, serving
from tests.stacks import eventually

MIB = 1024 * 1024
PATH = "/forms"
router = APIRouter(route_class=StrictRoute)


async def given_form(request: Request) -> AsyncGenerator[Form]:
    assert isinstance(request, StrictRequest)
    async with reading(request) as form:
        yield form


@router.post(PATH, dependencies=[Idempotent])
async def take(
    caller: Annotated[Caller, require_scope(None)], form: Annotated[Form, Depends(given_form)]
) -> dict[str, Any]:
    digest, size, largest = hashlib.sha256(), 0, 0
    async with aclosing(form.chunks()) as chunks:
        async for chunk in chunks:
            digest.update(chunk)
            size, largest = size + len(chunk), max(largest, len(chunk))
    if form.fields.get("fail"):
        raise NotFound("form")
    assert largest <= 256 * 1024
    return {
        "id": str(new_id()), "fields": form.fields, "filename": form.filename, "size": size,
        "sha256": digest.hexdigest(), "on_disk": len(open_files()),
    }  # fmt: skip


def nameless() -> set[str]:
    """The open files of this process that have no name in any folder."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {name for name in links if name.endswith("(deleted)")}


OTHERS: set[str] = set()


@pytest.fixture(scope="module", autouse=True)
def files_of_other_tests() -> None:
    """Note those that earlier tests have left open, such as data replaced while they were read."""
    OTHERS.update(nameless())


def open_files() -> set[str]:
    """Those that the tests' requests have opened."""
    return nameless() - OTHERS


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    app = create_app(settings.model_copy(update={"local_only": True}))
    app.include_router(router)
    async with serving(app) as api:
        yield api


def part(name: str, data: bytes, filename: str | None = None) -> bytes:
    named = "" if filename is None else f'; filename="{filename}"'
    return f'Content-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data


def form_of(*parts: bytes, boundary: bytes = b"x") -> bytes:
    return b"".join(b"--%b\r\n%b\r\n" % (boundary, one) for one in parts) + b"--%b--\r\n" % boundary


async def send(
    person: Person, body: Any, content_type: str = "multipart/form-data; boundary=x", **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await person.key.post(PATH, content=body, headers={"Content-Type": content_type, **named})


def refusals(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.text
    return [(error["pointer"], error["code"]) for error in answer.json()["errors"]]


CSV = part(multipart.FILE, b"email\nada@example.com\n", "table.csv")


@pytest.mark.parametrize("size", [0, 1, 1_000, MIB, 3 * MIB + 1, MAX_FILE_BYTES])
async def test_a_file_is_read_as_it_was_sent(person: Person, size: int) -> None:
    data = os.urandom(size)
    answer = await person.key.post(PATH, files={"file": ("a.csv", data)}, data={"type": "email"})
    found = answer.json()
    assert (found["size"], found["sha256"]) == (size, hashlib.sha256(data).hexdigest())
    assert (found["fields"], found["filename"]) == ({"type": "email"}, "a.csv")
    assert found["on_disk"] == (size > MIB)


async def test_what_looks_like_a_boundary_stays_in_the_file(person: Person) -> None:
    data = b"\r\n--x\n\r\n--\r\n--xy\r\n-" * 20_000
    answer = await send(person, form_of(part("file", data), boundary=b"x" * 20), f"{FORM}{'x' * 20}")
    assert answer.json()["sha256"] == hashlib.sha256(data).hexdigest()


FORM = "multipart/form-data; boundary="


@pytest.mark.parametrize("order", [0, 1, 2])
async def test_fields_may_come_in_any_order_with_the_file(person: Person, order: int) -> None:
    parts = [part("type", b"ip"), part("Spalte", "Straße".encode())]
    answer = await send(person, form_of(*parts[:order], CSV, *parts[order:]))
    assert answer.json()["fields"] == {"type": "ip", "Spalte": "Straße"}


async def test_a_form_may_come_byte_by_byte(person: Person) -> None:
    async def bytewise() -> AsyncGenerator[bytes]:
        for byte in form_of(part("type", b"ip"), CSV):
            yield bytes([byte])

    answer = await send(person, bytewise())
    assert (answer.json()["fields"], answer.json()["size"]) == ({"type": "ip"}, 22)


WRONG: dict[str, tuple[bytes, str, str, str]] = {
    "no boundary": (form_of(CSV), "multipart/form-data", "", "invalid_form"),
    "an endless boundary": (form_of(CSV), FORM + "x" * 5_000, "", "invalid_form"),
    "another boundary": (form_of(CSV), FORM + "y", "", "invalid_form"),
    "no form": (b"email\nada@example.com\n", FORM + "x", "", "invalid_form"),
    "nothing": (b"", FORM + "x", "", "invalid_form"),
    "cut in a file": (form_of(CSV)[:-8], FORM + "x", "", "invalid_form"),
    "cut in a header": (form_of(CSV)[:20], FORM + "x", "", "invalid_form"),
    "a part without a name": (form_of(b"\r\nx", CSV), FORM + "x", "", "invalid_form"),
    "an endless header": (b"--x\r\n" + b"a" * 100_000, FORM + "x", "", "invalid_form"),
    "many fields": (form_of(*(part(f"f{n}", b"") for n in range(99))), FORM + "x", "", "invalid_form"),
    "no file": (form_of(part("type", b"ip")), FORM + "x", "/file", "required"),
    "two files": (form_of(CSV, CSV), FORM + "x", "/file", "duplicate_field"),
    "a field twice": (form_of(part("a/b", b""), part("a/b", b"")), FORM + "x", "/a~1b", "duplicate_field"),
    "a file elsewhere": (form_of(part("data", b"", "a.csv")), FORM + "x", "/data", "unknown_field"),
    "a long field": (form_of(part("type", b"x" * 9_000), CSV), FORM + "x", "/type", "too_long"),
    "Latin-1": (form_of(part("type", b"\xe9"), CSV), FORM + "x", "/type", "bad_encoding"),
    "a name in Latin-1": (b'--x\r\nContent-Disposition: form-data; name="\xe9"\r\n\r\n', FORM + "x", "",
                          "bad_encoding"),
    "NUL": (form_of(part("type", b"a\0"), CSV), FORM + "x", "/type", "nul_character"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_form_is_refused(person: Person, case: str) -> None:
    body, content_type, pointer, code = WRONG[case]
    assert refusals(await send(person, body, content_type)) == [(pointer, code)]
    assert not open_files()


async def test_a_file_over_20_mib_is_too_large(person: Person) -> None:
    answer = await person.key.post(PATH, files={"file": ("a.csv", bytes(MAX_FILE_BYTES + 1))})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(api: Api, person: Person) -> None:
    answer = await exchange(api, person, b"", f"Content-Length: {40 * MIB}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413") and b"body_too_large" in answer


async def test_a_body_that_does_not_end_is_refused_while_it_comes(person: Person) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        yield b"--x\r\n" + part("file", b"", "a.csv")
        for _ in range(1_000):
            yield bytes(64 * 1024)

    answer = await send(person, endless())
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_packed_form_is_refused(person: Person) -> None:
    answer = await send(person, gzip.compress(form_of(CSV)), Content_Encoding="gzip")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_content_encoding")


async def exchange(api: Api, person: Person, body: bytes, headers: bytes) -> bytes:
    """Return what the server answers to a request that stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {person.secret}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nConnection: close\r\n".encode()
        + headers + b"\r\n" + body
    )  # fmt: skip
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_form_that_does_not_come_is_not_waited_for_for_ever(
    api: Api, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body, "BODY_SECONDS", 0.2)
    answer = await exchange(api, person, b"--x\r\n", b"Content-Length: 10000\r\n")
    assert b"HTTP/1.1 400" in answer and b"body_too_slow" in answer


async def test_a_form_that_comes_has_the_more_time_the_more_has_come(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body, "BODY_SECONDS", 0.0)
    answer = await person.key.post(PATH, files={"file": ("a.csv", bytes(10 * MIB))})
    assert answer.json()["size"] == 10 * MIB


LARGE = part("file", bytes(2 * MIB), "a.csv")


@pytest.mark.parametrize("fields", [(), (part("fail", b"1"),)], ids=["answer", "refusal"])
async def test_the_file_is_gone_when_the_request_is_answered(person: Person, fields: tuple[bytes]) -> None:
    assert (await send(person, form_of(LARGE, *fields))).status_code == (404 if fields else 200)
    await eventually(lambda: not open_files())


async def lose_client(api: Api, person: Person) -> None:
    """Let a client go away while its file is coming."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {person.secret}\r\n"
        f"Content-Type: {FORM}x\r\nContent-Length: {10 * MIB}\r\n\r\n--x\r\n".encode()
        + LARGE
    )
    await writer.drain()
    await eventually(lambda: bool(open_files()))
    writer.close()


async def test_the_file_is_gone_when_the_client_goes_away(api: Api, person: Person) -> None:
    await lose_client(api, person)
    await eventually(lambda: not open_files())


async def test_a_client_that_goes_away_is_no_fault_of_ours(
    api: Api, person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    await lose_client(api, person)
    logged = ""

    def is_logged() -> bool:
        nonlocal logged
        logged += capsys.readouterr().out
        return "status=" in logged

    await eventually(is_logged)
    assert "code=invalid_request" in logged and "internal_error" not in logged


async def test_a_repeat_is_known_by_its_parts_and_not_by_its_boundary(person: Person) -> None:
    key = str(uuid4())
    kind = part("type", b"ip")
    first = await send(person, form_of(kind, CSV), Idempotency_Key=key)
    again = await send(person, form_of(CSV, kind, boundary=b"y"), FORM + "y", Idempotency_Key=key)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]


@pytest.mark.parametrize(
    "other",
    [
        (part("type", b"ip"), part("file", b"email\nbob@example.com\n", "table.csv")),
        (part("type", b"ip"), part("file", b"email\nada@example.com\n", "other.csv")),
        (part("type", b"email"), CSV),
        (part("typ", b"ip"), CSV),
        (CSV,),
    ],
    ids=["content", "filename", "value", "name", "missing"],
)
async def test_another_form_with_the_same_key_is_refused(person: Person, other: tuple[bytes, ...]) -> None:
    key = str(uuid4())
    assert (await send(person, form_of(part("type", b"ip"), CSV), Idempotency_Key=key)).status_code == 200
    answer = await send(person, form_of(*other), Idempotency_Key=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
