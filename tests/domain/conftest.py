"""Servers on loopback that speak what domain sources ask with: DNS, TLS and WHOIS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from providers.domain import whois
from providers.sources import nameservers
from tests.name_servers import name_server

__all__ = ["name_server"]


@dataclass
class Registry:
    """A WHOIS server: question → answer."""

    answers: dict[str, str]
    asked: list[str] = field(default_factory=list[str])
    port: int = 0

    @property
    def url(self) -> str:
        return f"whois://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = (await reader.readline()).decode("latin-1").removesuffix("\r\n")
        self.asked.append(question)
        writer.write(self.answers.get(question, "").encode("latin-1"))
        writer.close()


Whois = Callable[[dict[str, str]], Awaitable[Registry]]


@pytest.fixture
async def resources() -> AsyncGenerator[AsyncExitStack]:
    async with AsyncExitStack() as resources:
        yield resources


@pytest.fixture
def registry(resources: AsyncExitStack) -> Whois:
    async def start(answers: dict[str, str]) -> Registry:
        whois._registries.clear()  # pyright: ignore[reportPrivateUsage] - a port may come again
        registry = Registry(answers)
        server = await asyncio.start_server(registry.serve, "127.0.0.1", 0)
        registry.port = server.sockets[0].getsockname()[1]
        resources.callback(server.close)
        return registry

    return start


def ask_here(monkeypatch: pytest.MonkeyPatch, module: ModuleType, url: str) -> None:
    """Let `module` ask the name server at `url` in place of the machine's own."""
    here = nameservers.resolvers(url)

    def resolvers(base_url: str) -> tuple[nameservers.Resolver, ...]:
        assert base_url == ""
        return here

    monkeypatch.setattr(module, "resolvers", resolvers)


def certificate(folder: Path, **changes: Any) -> Path:
    """A self-signed certificate with its key, in one PEM file; it has expired, unless `ends` says else."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = [(NameOID.ORGANIZATION_NAME, "Example Trust"), (NameOID.COMMON_NAME, "Example CA 1")]
    name = x509.Name([x509.NameAttribute(oid, text) for oid, text in changes.get("issuer", issuer)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(changes.get("ends", datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=90)))
    )
    names = changes.get("names", [x509.DNSName("www.example.com"), x509.DNSName("example.com")])
    if names:
        names = [*names, x509.IPAddress(ip_address("192.0.2.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(key, SHA256())
    path = folder / "server.pem"
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(pem + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
async def tls_server(resources: AsyncExitStack, tmp_path: Path) -> tuple[str, list[str]]:
    """The URL of a TLS server whose certificate nobody should trust, and the names that it was asked for."""
    asked: list[str] = []
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate(tmp_path))
    serving.sni_callback = lambda _socket, name, _context: asked.append(name)

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=serving)
    resources.callback(server.close)
    return f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
