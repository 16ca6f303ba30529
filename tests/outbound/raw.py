"""What is sent to a server on loopback, and what it writes in answer, byte by byte."""

from __future__ import annotations

from ipaddress import ip_network

from settings import Settings

CONNECTION_HEADERS = (
    "Host hOsT Connection Keep-Alive Proxy-Authenticate Proxy-Authorization Proxy-Connection TE Trailer "
    "Transfer-Encoding Upgrade Content-Length Expect"
).split()
LOOPBACK = Settings(allow_private_networks=(ip_network("127.0.0.0/8"),))


def response(body: bytes = b"", *headers: str, status: int = 200) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
