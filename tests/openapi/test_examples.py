"""The examples of OpenAPI: each is what a request really was, and what the service really answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator

from api.http.openapi import operations
from api.http.openapi_examples import read_examples
from database import Database
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from sealing import Keyring
from settings import ProviderSettings, Settings
from temporal.client import connect
from tests.api_server import openapi_document, running
from tests.assistant.model_server import Say, call, scripted_model
from tests.automations.engine import endpoint, working
from tests.datasets import write_small_datasets
from tests.name_servers import NameServer
from tests.openapi import stories
from tests.openapi.recording import Recorder, shape, written

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "api" / "http" / "openapi_examples.json"
FIXTURES = ROOT / "tests" / "fixtures"
# What each source says, if not what its "ok" says; those of addresses speak of others than are asked about.
SAYS = {"virustotaldomain": "harmless", "urlhaus": "empty", "threatfox": "empty"}
ZONE = {
    "example.com": {
        "A": ["192.0.2.10"],
        "MX": ["10 mail.example.com."],
        "NS": ["a.iana-servers.net.", "b.iana-servers.net."],
        "TXT": ['"v=spf1 -all"'],
    }
}
# What has no example, and why.
WITHOUT = {
    ("get_workflow_schema", "200"): "the answer is docs/workflow.schema.json",
    ("get_schema_for_editors", "200"): "the answer is docs/workflow.schema.json",
    ("call_mcp", "request"): "messages of a protocol, which its clients write",
    ("call_mcp", "200"): "messages of a protocol, which its clients read",
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def own(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(operation["operationId"], operation) for _, _, operation in operations(document)]


def examples_of(document: dict[str, Any], content: dict[str, Any]) -> list[Any]:
    found = [one for one in content.get("examples", {}).values() if "$ref" in one]
    return [document["components"]["examples"][one["$ref"].rpartition("/")[2]]["value"] for one in found]


def test_every_json_body_and_every_json_answer_has_an_example(document: dict[str, Any]) -> None:
    bare: list[tuple[str, str]] = []
    for name, operation in own(document):
        bodies = {"request": operation.get("requestBody", {})}
        bodies |= {status: one for status, one in operation["responses"].items() if status < "300"}
        for place, body in bodies.items():
            content = body.get("content", {}).get("application/json")
            first = operation.get("x-same-as", name)
            if content is not None and not examples_of(document, content) and (first, place) not in WITHOUT:
                bare.append((name, place))
    assert bare == []


def test_every_example_is_as_its_schema_says(document: dict[str, Any]) -> None:
    wrong: list[str] = []
    for name, operation in own(document):
        answers = [one for status, one in operation["responses"].items() if status < "300"]
        for body in [operation.get("requestBody", {}), *answers]:
            content = body.get("content", {}).get("application/json", {})
            schema = {**content.get("schema", {}), "components": document["components"]}
            for example in examples_of(document, content):
                found = Draft202012Validator(schema).iter_errors(example)
                wrong += [f"{name}: {error.json_path}: {error.message[:200]}" for error in found]
    assert wrong == []


async def answer(request: web.Request) -> web.Response:
    """Return what the fixture of a source says; the same whatever is asked."""
    name, path = request.match_info["name"], request.match_info["path"]
    told = json.loads((FIXTURES / name / f"{SAYS.get(name, 'ok')}.json").read_text())["exchanges"]
    there = [one for one in told if one["path"].rstrip("/").endswith(path.rstrip("/"))] or told
    asked = dict(request.query).items()
    exchange = next((one for one in there if one.get("query", {}).items() <= asked), there[0])
    text = exchange["text"] if "text" in exchange else json.dumps(exchange.get("body"))
    return web.Response(status=exchange["status"], text=text, content_type="application/json")


@pytest.fixture(scope="module")
async def sources() -> AsyncGenerator[dict[str, ProviderSettings]]:
    """All sources that have fixtures, on loopback; the others are off."""
    app = web.Application()
    app.router.add_route("*", "/{name}/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(ZONE), local_addr=("127.0.0.1", 0)
    )
    names = f"dns://127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    found: dict[str, ProviderSettings] = {}
    for source in (one for kind in KINDS.values() for one in kind.sources if isinstance(one, RemoteSource)):
        name, url = source.spec.name, f"http://127.0.0.1:{runner.addresses[0][1]}"
        if name in ("dns", "mx"):
            found[name] = ProviderSettings(base_url=names)
        elif source.spec.kind != "ip" and (FIXTURES / name / "ok.json").exists():
            found[name] = ProviderSettings.model_validate(
                {"base_url": f"{url}/{name}", "key": "the-operators"}
            )
        else:
            found[name] = ProviderSettings(enabled=False)
    yield found
    transport.close()
    await runner.cleanup()


async def test_the_service_answers_as_the_examples_say(
    live_settings: Settings,
    sources: dict[str, ProviderSettings],
    database: Database,
    keyring: Keyring,
    document: dict[str, Any],
    quick_passwords: None,
    tmp_path: Path,
) -> None:
    """Where it no longer does, the assertion says how to take what it answers now."""
    write_small_datasets(live_settings.data)
    networks = (ip_network("127.0.0.1/32"),)
    settings = live_settings.model_copy(update={"providers": sources, "allow_private_networks": networks})
    client = await connect(settings, keyring)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(working(settings, client, database, keyring))
        model = await stack.enter_async_context(scripted_model())
        model.script = [call("create_contact_list", **stories.LIST), Say("It is there.")]
        chat = {"chat_base_url": model.url, "chat_model": "qwen3:14b"}
        api = await stack.enter_async_context(running(settings, local_only=False, **chat))
        receiver = await stack.enter_async_context(endpoint())
        person = await api.person(credits=1000)
        tell = Recorder(document, person.key, person.session)
        await stories.lookups(tell)
        await stories.jobs(tell)
        await stories.lists(tell)
        await stories.monitors(tell)
        await stories.workflows(tell)
        await stories.waits_and_files(tell)
        await stories.webhooks(tell, f"{receiver.url}/hook")
        await stories.chat(tell, urlsplit(model.url).netloc)
        await stories.account(tell)
    new = tmp_path / "openapi_examples.json"
    new.write_bytes(written(tell.told))
    expected = json.loads(COMMITTED.read_text())
    different = [name for name, one in tell.told.items() if shape(expected.get(name)) != shape(one)]
    sent = [
        name for name, one in tell.told.items() if one.get("request") != expected.get(name, {}).get("request")
    ]
    assert not [*different, *sent], f"Take the new ones: cp {new} {COMMITTED.relative_to(ROOT)}"
    assert read_examples().keys() == tell.told.keys()
