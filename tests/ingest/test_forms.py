"""Forms as events: in UTF-8 or Latin-1, and never what JSON could not say."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api_server import Api
from tests.automations.workflows import create, post, problem

URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"


def multipart(value: bytes, name: bytes = b"a") -> bytes:
    return b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n--x--\r\n' % (name, value)


async def send(api: Api, content_type: str, body: bytes, **workflow: Any) -> tuple[httpx.Response, Any]:
    """The answer, and the input of the run that came of it."""
    person = await api.person()
    made = await create(person, **workflow)
    answer = await post(api, made["webhook_url"], content=body, headers={"Content-Type": content_type})
    run = (await person.key.get("/api/workflows/runs?include=input")).json()["runs"]
    return answer, run[0]["input"] if run else None


READ: dict[str, tuple[str, bytes, Any]] = {
    "UTF-8 as browsers send it": (URLENCODED, b"a=%C3%A9+x", {"a": "é x"}),
    "UTF-8 as curl sends it": (URLENCODED, "a=é".encode(), {"a": "é"}),
    "UTF-8 that says so": (f"{URLENCODED}; charset=UTF-8", b"a=%C3%A9", {"a": "é"}),
    "Latin-1": (f"{URLENCODED}; charset=ISO-8859-1", b"a=%E9\xe9", {"a": "éé"}),
    "bytes that are not UTF-8": (URLENCODED, b"a=%ff\xff", {"a": "\ufffd\ufffd"}),
    "a surrogate in UTF-8": (URLENCODED, b"a=%ed%a0%80", {"a": "\ufffd\ufffd\ufffd"}),
    "blanks and repeats": (URLENCODED, b"a=&b&a=1&&", {"a": ["", "1"], "b": ""}),
    "nothing": (URLENCODED, b"", {}),
    "multipart UTF-8": (MULTIPART, multipart("é".encode(), "ü".encode()), {"ü": "é"}),
    "multipart Latin-1": (f'{MULTIPART}; charset="latin1"', multipart(b"\xe9"), {"a": "é"}),
    "a form over 16 KiB": (URLENCODED, b"a=" + b"%41" * 20_000, {"a": "A" * 20_000}),
}


@pytest.mark.parametrize("case", READ)
async def test_a_form_is_read_as_an_object(api: Api, case: str) -> None:
    content_type, body, expected = READ[case]
    answer, stored = await send(api, content_type, body)
    assert (answer.status_code, stored) == (202, expected)


@pytest.mark.parametrize("form", [URLENCODED, MULTIPART], ids=["urlencoded", "multipart"])
@pytest.mark.parametrize(
    "charset",
    [
        "unicode_escape",
        "utf-7",
        "utf-16",
        "undefined",
        "idna",
        "base64",
        "punycode",
        "nonsense",
        "a\tb",
        '""',
    ],
)
async def test_another_charset_is_refused_and_the_answer_says_what_to_send(
    api: Api, form: str, charset: str
) -> None:
    body = multipart(b"\\ud800") if form is MULTIPART else b"a=\\ud800"
    answer, stored = await send(api, f"{form}; charset={charset}", body)
    assert (problem(answer), stored) == ((415, "unsupported_charset"), None)
    assert "charset=utf-8" in answer.json()["message"]


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "too many fields": (URLENCODED, b"&".join(b"a=1" for _ in range(1001)), "invalid_form"),
    "a NUL in a value": (URLENCODED, b"a=%00", "invalid_input"),
    "a NUL in a name": (URLENCODED, b"%00=a", "invalid_input"),
    "a NUL in a part": (MULTIPART, multipart(b"\0"), "invalid_input"),
    "a file": (
        MULTIPART, multipart(b"x", b'a"; filename="f'), "invalid_form",
    ),
    "no boundary": ("multipart/form-data", multipart(b"x"), "invalid_form"),
    "a form that was cut in a value": (MULTIPART, multipart(b"x")[:-9], "invalid_form"),
    "a form that was cut after a part": (MULTIPART, multipart(b"x").rpartition(b"--")[0], "invalid_form"),
    "garbage": (MULTIPART, b"garbage", "invalid_form"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_form_is_refused(api: Api, case: str) -> None:
    content_type, body, code = REFUSED[case]
    answer, stored = await send(api, content_type, body)
    assert (answer.status_code, stored) == (400, None)
    assert code in (answer.json()["code"], answer.json()["errors"][0]["code"])


async def test_a_dedupe_value_with_a_nul_is_a_key_like_any_other(api: Api) -> None:
    made = await create(await api.person(), trigger={"type": "webhook", "dedupe": "request.query.q"})
    answers = [await post(api, f"{made['webhook_url']}?q={q}", json={}) for q in ("%00", "%00", "%00a")]
    runs = [answer.json()["run_id"] for answer in answers]
    assert runs[0] == runs[1] != runs[2]


async def test_the_dedupe_value_of_a_large_event_is_found_too(api: Api) -> None:
    made = await create(await api.person(), trigger={"type": "webhook", "dedupe": "trigger.id"})
    answers = [
        await post(api, made["webhook_url"], json={"id": 1, "more": "x" * size})
        for size in (1, 50_000, 100_000)
    ]
    assert len({answer.json()["run_id"] for answer in answers}) == 1


async def test_who_sends_a_file_in_an_event_is_told_where_files_go(api: Api) -> None:
    answer, _ = await send(api, MULTIPART, multipart(b"x", b'a"; filename="f'))
    assert "no file: the trigger file_upload takes files." in answer.json()["errors"][0]["message"]
