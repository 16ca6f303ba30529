"""TLS in front of a real Temporal server: certificates made here, and a proxy that ends the encryption."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates, and keeps them with their keys in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def issue(self, name: str, address: str = "127.0.0.1") -> tuple[Path, Path]:
        """The files of a new certificate and its key, for an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        certificate = self._builder(subject, key).add_extension(names, critical=False)
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            self._name, subject, key.public_key(), x509.random_serial_number(),
            now - timedelta(hours=1), now + timedelta(hours=1),
        )  # fmt: skip


@dataclass
class Proxy:
    """What clients connect to, and all that they have said, decrypted."""

    address: str = ""
    heard: bytearray = field(default_factory=bytearray)


@contextlib.asynccontextmanager
async def in_front_of(
    address: str, certificate: tuple[Path, Path], clients: Path | None = None
) -> AsyncGenerator[Proxy]:
    """Speak TLS on a random port; with `clients`, only to those whom that authority has certified."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2"])
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    proxy, host, port = Proxy(), *address.split(":")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while some := await reader.read(65536):
                copy += some
                writer.write(some)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, outside = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, outside, proxy.heard), pump(inside, writer, bytearray()))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield proxy
    server.close()
