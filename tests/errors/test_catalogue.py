"""errors.toml has every code that the source gives, and no other; each has a page."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from api.http.catalogue import CATALOGUE, page
from services import documentation
from settings import Settings
from tests.api_server import Api, running

ROOT = Path(__file__).resolve().parents[2]
# Where these take a code. Other calls have one as `code=`, or are raised with a word before the message.
CODE_AT = {
    "Conflict": 0, "Forbidden": 0, "Unauthenticated": 0, "Unavailable": 0, "Invalid": 1, "Problem": 1,
    "ProblemReport": 1, "FieldError": 1, "Finding": 1, "PydanticCustomError": 0,
    "ExpressionError": 0, "failed_attempt": 0, "Refusal": 0, "_refuse": 1, "_refusal": 0, "BadCsv": 0,
}  # fmt: skip
# Tables of codes and their messages.
TABLES = {"_KINDS", "_MESSAGES", "_CODE_OF"}
# What passes on a code that was given elsewhere; `name` is that of a limit.
PASSED_ON = re.compile(r"(\w+\.)?code|kind|name|\*.*")
WORD = re.compile(r"[a-z][a-z0-9_]*")


def modules() -> list[Path]:
    """The source of the service, without its tests, and without what operators use at the command line."""
    others = {"tests", "bench", "migrations", "embedded", "cli", ".venv", ".venv-docs"}
    places = [
        path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.parent != ROOT / "services" / "operator"
    ]
    return [ROOT / place for place in places if place.parts[0] not in others]


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_word(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(WORD.fullmatch(node.value))


def in_tables(value: ast.expr | None) -> list[ast.expr]:
    values = value.values if isinstance(value, ast.Dict) else []
    return [value.elts[0] if isinstance(value, ast.Tuple) else value for value in values]


def elsewhere(node: ast.AST) -> list[ast.expr]:
    """Words that are codes, in other places than the arguments of CODE_AT."""
    match node:
        case ast.Call(keywords=keywords):
            found = [keyword.value for keyword in keywords if keyword.arg == "code"]
            # What a class of errors gives to its base.
            found += node.args[:1] if called(node) == "__init__" and len(node.args) > 1 else []
        case ast.Raise(exc=ast.Call(args=[first, _, *_]) as error) if called(error) != "SourceError":
            found = [first]  # a SourceError has the status of a source
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in TABLES:
            found = in_tables(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if name in TABLES:
            found = in_tables(value)
        case ast.Assign(targets=[ast.Name(id="code")], value=value):
            found = [value]
        case ast.Dict(keys=keys, values=values):
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            found = [value for name, value in zip(names, values, strict=True) if name == "code"]
        case _:
            found = []
    return [code for code in found if is_word(code)]


def choices(node: ast.expr) -> list[ast.expr]:
    return [*choices(node.body), *choices(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def given() -> Iterator[tuple[str, ast.expr]]:
    """Every expression in the source that gives a code, with its place."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            codes = elsewhere(node)
            if isinstance(node, ast.Call) and called(node) in CODE_AT:
                codes += node.args[CODE_AT[called(node)] :][:1]
            for code in codes:
                yield from ((f"{path.relative_to(ROOT)}:{code.lineno}", choice) for choice in choices(code))


def test_every_code_that_the_source_gives_has_an_entry_and_every_entry_is_given() -> None:
    found = {ast.literal_eval(code): place for place, code in given() if is_word(code)}
    assert {code: place for code, place in found.items() if code not in CATALOGUE} == {}
    assert CATALOGUE.keys() - found.keys() == set()


def test_a_code_is_written_out_where_it_is_given() -> None:
    """Else the test above could not see it."""
    others = {place: ast.unparse(code) for place, code in given() if not is_word(code)}
    assert {place: text for place, text in others.items() if not PASSED_ON.fullmatch(text)} == {}


def test_the_page_of_all_codes_is_the_catalogue() -> None:
    """Else: `.venv/bin/python -m api.http.catalogue > docs/errors.md`."""
    assert (ROOT / "docs" / "errors.md").read_text() == page()


def test_an_entry_has_what_its_place_needs() -> None:
    for code, entry in CATALOGUE.items():
        assert (entry.status is not None) == (entry.place == "answers"), code
        assert not entry.details or entry.place == "answers", code
        assert entry.cause.endswith(".") and entry.remedy.endswith("."), code


def strings_in(value: object) -> Iterator[str]:
    """Every string in a piece of JSON, but for names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)


@pytest.mark.parametrize("code", CATALOGUE)
async def test_every_code_has_a_page_with_cause_remedy_and_example(api: Api, code: str) -> None:
    page = await api.http.get(f"/errors/{code}", headers={"accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    _, _, rest = page.text.partition(f"<h1>{code}</h1>")
    told, _, example = rest.removesuffix("</pre>\n</html>\n").partition("<pre>")
    text, entry = unescape(told.replace("<code>", "`").replace("</code>", "`")), CATALOGUE[code]
    assert f"<p>{entry.cause}</p>" in text
    assert f"<p>{entry.remedy}</p>" in text
    assert {code, entry.example} <= set(strings_in(json.loads(unescape(example))))


def test_the_paragraph_that_an_entry_names_is_there() -> None:
    for code, entry in CATALOGUE.items():
        if entry.read:
            name, _, anchor = entry.read.partition("#")
            assert documentation.read_page(name, anchor or None) is not None, f"{code}: {entry.read}"


async def test_a_page_leads_to_the_paragraph_that_says_more(api: Api) -> None:
    path, read = "/errors/insufficient_credits", CATALOGUE["insufficient_credits"].read
    address = f"{api.services.settings.address}/docs/{read}"
    assert f'<a href="{address}">' in (await api.http.get(path, headers={"accept": "text/html"})).text
    assert f"\nMore: {address}\n" in (await api.http.get(path, headers={"accept": "text/markdown"})).text
    page = (await api.http.get(path, headers={"accept": "application/json"})).json()
    assert page["read"] == address


async def test_the_page_comes_as_json_or_markdown_for_those_who_ask(api: Api) -> None:
    forms = {
        media_type: await api.http.get("/errors/insufficient_credits", headers={"accept": media_type})
        for media_type in ("application/json", "text/markdown", "*/*")
    }
    types = {wanted: answer.headers["content-type"] for wanted, answer in forms.items()}
    assert types == {
        "application/json": "application/json",
        "text/markdown": "text/markdown; charset=utf-8",
        "*/*": "text/html; charset=utf-8",
    }
    assert all(answer.headers["vary"] == "Accept" for answer in forms.values())
    page = forms["application/json"].json()
    assert (page["example"]["required"], page["example"]["balance"]) == (5, 2)
    assert page["cause"] == CATALOGUE["insufficient_credits"].cause
    assert forms["text/markdown"].text.startswith("# insufficient_credits\n")


async def test_the_type_of_a_problem_leads_to_its_page(settings: Settings) -> None:
    async with running(settings, public_url="https://api.example.com") as api:
        problem = (await api.http.get("/api/credits")).json()
        assert problem["type"] == "https://api.example.com/errors/not_authenticated"
        page = await api.http.get(problem["type"].removeprefix("https://api.example.com"))
        assert page.status_code == 200
        assert "https://api.example.com/errors/not_authenticated" in page.text


@pytest.mark.parametrize("code", ["no_such_code", "<script>alert(1)</script>", "%0d%0aX-Injected:%201", "_"])
async def test_an_unknown_code_is_a_404_that_shows_no_page(api: Api, code: str) -> None:
    answer = await api.http.get(f"/errors/{code}", headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "<script>" not in answer.text
    assert "x-injected" not in answer.headers


def closed(answer: httpx.Response) -> bool:
    return answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_a_page_may_load_and_run_nothing(api: Api) -> None:
    page = await api.http.get("/errors/not_found")
    assert closed(page)
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<(script|style|link|img)|style=|(?<!<a )href=|src=", page.text)
