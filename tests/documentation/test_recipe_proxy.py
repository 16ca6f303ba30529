"""The proxies of docs/recipes/tls-proxy.md, before a real API: TLS, addresses, limits and streams."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from ipaddress import ip_network
from itertools import count
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import httpx
import pytest

from settings import Rate, Settings
from tests.api_server import Api, running
from tests.automations.workflows import create
from tests.documentation import pages
from tests.pinned_packages import run
from tests.programs import find_program
from tests.stacks import eventually, free_port

pytestmark = pytest.mark.long

_NAME = "vedette.example.com"
_ADDRESSES = count(2)
_PATH = f"{os.environ['PATH']}:/usr/sbin"
_BLOCKS = pages.read("docs/recipes/tls-proxy.md")
_TEXTS = {block.language: block.text for block in _BLOCKS}
_SETTINGS = dict(line.split("=", 1) for line in _TEXTS["ini"].splitlines())


class Proxied(NamedTuple):
    """A proxy that runs before an API.

    Attributes:
        api: the API behind it.
        client: makes a client that comes from an address of this machine.
    """

    api: Api
    client: Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    """An API with the page's settings, that admits one wrong login a minute from an address."""
    proxies = (ip_network(_SETTINGS["VEDETTE_TRUSTED_PROXIES"]),)
    url = _SETTINGS["VEDETTE_PUBLIC_URL"]
    async with running(settings, public_url=url, trusted_proxies=proxies, limit_login=Rate(1, 60)) as api:
        yield api


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the name, in a folder with its key."""
    folder = tmp_path_factory.mktemp("certificate")
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "1", "-subj", f"/CN={_NAME}", "-addext", f"subjectAltName=DNS:{_NAME}",
        "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem",
    )  # fmt: skip
    return folder


def _nginx(text: str, folder: Path, certificate: Path, port: int) -> list[str]:
    """Return the command of an nginx with the page's file; what a package brings is added around it."""
    text = text.replace(f"/etc/letsencrypt/live/{_NAME}", str(certificate))
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}")
    places = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off; {places}\n{text}}}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]


def _caddy(text: str, folder: Path, certificate: Path, port: int) -> list[str]:
    """Return the command of a Caddy with the page's file, which is given a certificate: none is fetched."""
    given = f"\tbind 127.0.0.1\n\ttls {certificate}/fullchain.pem {certificate}/privkey.pem\n"
    text = text.replace(f"{_NAME} {{\n", f"{_NAME}:{port} {{\n{given}")
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{text}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


_PROXIES = {"nginx": _nginx, "caddy": _caddy}


@contextmanager
def _started(command: list[str], folder: Path) -> Generator[subprocess.Popen[bytes]]:
    home = {"HOME": str(folder), "PATH": _PATH}
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, env=home, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=_PROXIES)
async def proxied(
    request: pytest.FixtureRequest, api: Api, certificate: Path, tmp_path: Path
) -> AsyncGenerator[Proxied]:
    find_program(request.param, path=_PATH)
    port = free_port()
    text = _TEXTS[request.param].replace("127.0.0.1:8000", api.url.removeprefix("http://"))
    context = ssl.create_default_context(cafile=certificate / "fullchain.pem")

    def client(address: str = "127.0.0.1") -> httpx.AsyncClient:
        async def name(sent: httpx.Request) -> None:
            sent.extensions["sni_hostname"] = _NAME

        return httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}", headers={"Host": _NAME}, timeout=30,
            transport=httpx.AsyncHTTPTransport(verify=context, local_address=address),
            event_hooks={"request": [name]},
        )  # fmt: skip

    with _started(_PROXIES[request.param](text, tmp_path, certificate, port), tmp_path) as process:

        async def serves() -> bool:
            assert process.poll() is None, (tmp_path / "said").read_text()
            try:
                async with client() as http:
                    return (await http.get("/healthz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(serves, 20, "the proxy serves")
        yield Proxied(api, client)


async def test_the_service_is_there_by_its_public_name(proxied: Proxied) -> None:
    async with proxied.client() as http:
        assert (await http.get("/readyz")).status_code == 200


async def test_an_event_comes_by_the_public_url_of_a_workflow(proxied: Proxied) -> None:
    person = await proxied.api.person()
    workflow = await create(person)
    assert workflow["webhook_url"].startswith(f"https://{_NAME}/api/")
    async with proxied.client() as http:
        answer = await http.post(workflow["webhook_url"].removeprefix(f"https://{_NAME}"), json={"a": 1})
    assert answer.status_code == 202


async def test_each_caller_has_limits_of_their_own_and_cannot_lie_about_their_address(
    proxied: Proxied,
) -> None:
    one, other = (proxied.client(f"127.0.0.{next(_ADDRESSES)}") for _ in range(2))
    async with one, other:
        assert await _fail_to_log_in(one) == 401
        assert await _fail_to_log_in(one) == 429
        assert await _fail_to_log_in(one, **{"X-Forwarded-For": "203.0.113.9"}) == 429
        assert await _fail_to_log_in(other) == 401


async def _fail_to_log_in(http: httpx.AsyncClient, **headers: str) -> int:
    """Try an account that no other attempt is for, so that only the address counts; return the status."""
    body = {"email": f"{uuid4().hex}@example.com", "password": "wrong horse battery staple"}
    return (await http.post("/api/auth/login", json=body, headers=headers)).status_code


async def test_a_file_of_twenty_mebibytes_is_let_through(proxied: Proxied) -> None:
    person = await proxied.api.person()
    async with proxied.client() as http:
        answer = await http.post(
            "/api/bulk-jobs", headers={"X-API-Key": person.secret},
            files={"file": ("large.csv", b"ip\n" + b"8.8.8.8,\n" * 2_200_000)},
        )  # fmt: skip
    assert answer.headers["content-type"] == "application/problem+json", "the service itself has refused it"


async def test_a_stream_comes_as_it_is_sent(proxied: Proxied) -> None:
    """The first event is there though the run, which no worker takes, never ends."""
    person = await proxied.api.person()
    workflow = await create(person, trigger={"type": "manual"})
    run_id = (await person.key.post(f"/api/workflows/{workflow['id']}/run", json={})).json()["run_id"]
    async with proxied.client() as http, asyncio.timeout(10):
        headers = {"X-API-Key": person.secret}
        async with http.stream("GET", f"/api/workflows/runs/{run_id}/events", headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    assert line == "event: run"
                    return
    raise AssertionError("the stream ended without an event")
