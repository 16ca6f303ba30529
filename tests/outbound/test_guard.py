"""What a URL that a user chose may lead to: nothing that only this machine or its network can see."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address, ip_network

import pytest

from outbound.client import Outbound
from outbound.errors import ForbiddenAddress, InvalidRequest, NameNotResolved, OutboundError
from outbound.guard import SystemResolver, check_url, forbidden_address, guarded_sockets, is_onion
from outbound.requests import OutgoingRequest
from settings import Settings
from tests.outbound.conftest import Names, Serve

FORBIDDEN = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255
192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a00:1
64:ff9b:1::1 100::1 ::ffff:0:7f00:1 2001::1 2001:db8::1 2001:20::1 2002:7f00:1:: 2002:a00:1:: 3fff::1
5f00::1 fc00::1 fd00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 ff0e::1
""".split()

PUBLIC = (
    "1.1.1.1 8.8.8.8 93.184.215.14 100.128.0.1 192.0.1.1 2606:4700::1111 2a00:1450::1 ::ffff:8.8.8.8".split()
)

# Every way to write an address that is not public, and hosts that only look harmless.
SPELLINGS = """
127.0.0.1 127.1 127.0.1 0x7f000001 0x7f.1 0177.0.0.1 2130706433 017700000001 0 0x0 127.0.0.1. 127.1.
①②⑦.0.0.1 １２７.0.0.1 127。0。0。1 [::] [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1]
[::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [fe80::1%25lo] [fc00::1] [fec0::1]
10.0.0.1 100.64.0.1 192.168.0.1 169.254.169.254 [fd00:ec2::254] 198.18.0.1 224.0.0.1 240.0.0.1 192.0.0.1
""".split()

NOT_URLS = [
    "",
    "example.com",
    "//example.com/",
    "http:///path",
    "http://",
    "ftp://example.com/",
    "gopher://example.com/",
    "file:///etc/passwd",
    "unix:///run/postgres.sock",
    "javascript:alert(1)",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://evil.example\\@127.0.0.1/",
    "http://127.0.0.1\\@evil.example/",
    "http://evil.example%2f@127.0.0.1/",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://example.com/\r\nX-Injected: 1",
    "http://example.com/\x00",
    "http://%31%32%37.0.0.1/",
    "http://[::1",
    "http://example.com:99999/",
    "http://-.example/",
    "http://a..b/",
]

NETWORKS_SETTING = "VEDETTE_ALLOW_PRIVATE_NETWORKS"


@pytest.mark.parametrize("address", FORBIDDEN)
def test_an_address_that_is_not_public_is_forbidden(address: str) -> None:
    assert forbidden_address(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert not forbidden_address(ip_address(address))


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_the_operator_opens_a_network_in_both_spellings_of_its_addresses(address: str) -> None:
    assert not forbidden_address(ip_address(address), [ip_network("10.1.0.0/16")])


def test_opening_one_network_opens_no_other() -> None:
    assert forbidden_address(ip_address("10.2.0.1"), [ip_network("10.1.0.0/16"), ip_network("fd00::/8")])


@pytest.mark.parametrize("host", SPELLINGS)
def test_every_spelling_of_a_forbidden_address_is_refused_when_it_is_set(host: str) -> None:
    refusal = check_url(f"https://{host}/hook")
    assert refusal is not None
    assert refusal.code == "forbidden_address"


@pytest.mark.parametrize("host", ["134744072", "8.8.2056", "0x8.8.8.8", "010.8.8.8", "8.8.8.8.", "127.1"])
def test_an_address_in_an_unusual_spelling_is_refused_also_if_it_may_be_called(host: str) -> None:
    refusal = check_url(f"https://{host}/hook", [ip_network("127.0.0.0/8")])
    assert refusal is not None
    assert (refusal.code, "usual form" in refusal.message) == ("invalid_url", True)


def test_the_refusal_names_the_setting_that_opens_the_address_and_not_the_address() -> None:
    refusal = check_url("http://10.0.0.1/")
    assert refusal is not None
    assert NETWORKS_SETTING in refusal.message and "10.0.0.1" not in refusal.message


@pytest.mark.parametrize("port", [1, 22, 25, 43, 53, 79, 81, 110, 143, 442, 444, 993, 1023])
def test_a_port_of_another_service_is_refused(port: int) -> None:
    refusal = check_url(f"http://example.com:{port}/")
    assert refusal is not None
    assert refusal.code == "forbidden_address"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com/hook?a=b#c",
        "http://example.com:80/",
        "https://example.com:443/",
        "http://example.com:1024/",
        "https://example.com:65535/",
        "https://bücher.example/",
        "https://a_b.example/",
        "https://example.com./",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/",
        "http://localhost:8080/",
    ],
)
def test_a_url_that_could_be_called_is_accepted(url: str) -> None:
    assert check_url(url) is None


@pytest.mark.parametrize("url", NOT_URLS)
def test_what_is_not_a_plain_http_url_is_refused(url: str) -> None:
    refusal = check_url(url)
    assert refusal is not None
    assert refusal.code == "invalid_url"


def test_a_refusal_never_repeats_what_was_wrong_with_it() -> None:
    refusal = check_url("http://user:s3cret@example.com/")
    assert refusal is not None
    assert "s3cret" not in refusal.message


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_socket_is_made_for_a_forbidden_address(address: str) -> None:
    make = guarded_sockets(())
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(ForbiddenAddress):
        make((family, socket.SOCK_STREAM, 6, "", (address, 443)))


def test_no_socket_is_made_for_a_forbidden_port() -> None:
    with pytest.raises(ForbiddenAddress):
        guarded_sockets(())((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 25)))


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_this_machine_is_connected_to(host: str, serve: Serve) -> None:
    four, six = await serve(host="0.0.0.0"), await serve(host="::")
    async with Outbound(Settings()) as outbound:
        for server in (four, six):
            with pytest.raises((ForbiddenAddress, InvalidRequest)):
                await outbound.send(OutgoingRequest("GET", f"http://{host}:{server.port}/", timeout=5))
    assert (four.connections, six.connections) == (0, 0)


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["::1"], ["8.8.8.8", "127.0.0.1"], ["2606:4700::1", "10.0.0.1"]]
)
async def test_a_name_with_any_forbidden_address_is_not_connected_to(
    answers: list[str], serve: Serve
) -> None:
    server = await serve(host="0.0.0.0")
    async with Outbound(Settings(), resolver=Names({"inside.example": [answers]})) as outbound:
        with pytest.raises(ForbiddenAddress) as raised:
            await outbound.send(OutgoingRequest("GET", server.url(host="inside.example")))
    assert server.connections == 0
    assert not any(address in str(raised.value) for address in answers)


@pytest.mark.parametrize("name", ["localhost", "localhost.", "LOCALHOST"])
async def test_the_systems_own_name_for_this_machine_is_not_connected_to(name: str, serve: Serve) -> None:
    server = await serve(host="0.0.0.0")
    async with Outbound(Settings()) as outbound:
        with pytest.raises((ForbiddenAddress, NameNotResolved)):
            await outbound.send(OutgoingRequest("GET", server.url(host=name)))
    assert server.connections == 0


async def test_a_name_that_changes_its_address_between_two_connections_is_caught(serve: Serve) -> None:
    inside = await serve(host="127.0.0.1")
    outside = await serve(host="127.0.0.2")
    location = inside.url(host="rebind.example")
    outside.answer = f"HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
    settings = Settings(allow_private_networks=(ip_network("127.0.0.2/32"),))
    names = Names({"rebind.example": [["127.0.0.2"], ["127.0.0.1"]]})
    async with Outbound(settings, resolver=names) as outbound:
        with pytest.raises(ForbiddenAddress):
            await outbound.send(
                OutgoingRequest("GET", outside.url(host="rebind.example"), follow_redirects=5)
            )
    assert (outside.connections, inside.connections) == (1, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{}/", "http://2130706433:{}/", "//[::1]:{}/", "http://inside.example:{}/"]
)
async def test_a_redirect_to_a_forbidden_address_is_not_followed(
    status: int, target: str, serve: Serve
) -> None:
    inside = await serve(host="127.0.0.1")
    location = target.format(inside.port)
    outside = await serve(
        f"HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode(), host="127.0.0.2"
    )
    settings = Settings(allow_private_networks=(ip_network("127.0.0.2/32"),))
    names = Names({"inside.example": [["127.0.0.1"]]})
    async with Outbound(settings, resolver=names) as outbound:
        with pytest.raises(ForbiddenAddress):
            await outbound.send(OutgoingRequest("GET", outside.url(), follow_redirects=5))
    assert inside.connections == 0


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://127.0.0.1/", "http://user@example.com/", "http://example.com:22/"],
)
async def test_a_redirect_to_what_could_not_be_set_is_not_followed(location: str, serve: Serve) -> None:
    server = await serve(f"HTTP/1.1 302 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
    async with Outbound(Settings(allow_private_networks=(ip_network("127.0.0.1/32"),))) as outbound:
        with pytest.raises((ForbiddenAddress, InvalidRequest)):
            await outbound.send(OutgoingRequest("GET", server.url(), follow_redirects=5))
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
async def test_no_proxy_is_taken_from_the_environment(
    name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = await serve(), await serve()
    monkeypatch.setenv(name, proxy.url())
    async with Outbound(Settings(allow_private_networks=(ip_network("127.0.0.1/32"),))) as outbound:
        assert (await outbound.send(OutgoingRequest("GET", server.url()))).body == b"ok"
        with pytest.raises(ForbiddenAddress):
            await outbound.send(OutgoingRequest("GET", "http://10.0.0.1/"))
    assert (proxy.connections, server.connections) == (0, 1)


async def test_a_netrc_file_lends_no_credentials(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password s3cret")
    monkeypatch.setenv("NETRC", str(netrc))
    server = await serve()
    async with Outbound(Settings(allow_private_networks=(ip_network("127.0.0.1/32"),))) as outbound:
        await outbound.send(OutgoingRequest("GET", server.url()))
    assert "authorization" not in server.requests[0].headers


async def test_a_provider_is_guarded_unless_the_operator_has_set_its_address(serve: Serve) -> None:
    server = await serve()
    own = Settings.model_validate({"providers": {"mine": {"base_url": server.url()}}})
    async with Outbound(own) as outbound:
        assert (await outbound.provider_client("mine").get(server.url())).text == "ok"
        with pytest.raises(OutboundError) as refused:
            await outbound.provider_client("other").get(server.url())
    assert refused.value.code == "forbidden_address"
    assert server.connections == 1


async def test_a_slow_name_server_does_not_hold_up_other_calls(serve: Serve) -> None:
    server = await serve()
    asked, release = asyncio.Event(), asyncio.Event()

    class Slow(Names):
        async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC):
            if host == "slow.example":
                asked.set()
                await release.wait()
            return await super().resolve(host, port, family)

    names = Slow({"fast.example": [["127.0.0.1"]], "slow.example": [["127.0.0.1"]]})
    settings = Settings(allow_private_networks=(ip_network("127.0.0.1/32"),))
    async with Outbound(settings, resolver=names) as outbound, asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(outbound.send(OutgoingRequest("GET", server.url(host="slow.example"))))
        await asyncio.wait_for(asked.wait(), 30)
        assert (await outbound.send(OutgoingRequest("GET", server.url(host="fast.example")))).status == 200
        assert not slow.done()
        release.set()


@pytest.mark.parametrize(
    ("name", "onion"),
    [
        ("abc.onion", True),
        ("www.ABC.Onion.", True),
        ("onion", True),
        ("onion.example.com", False),
        ("abc.notonion", False),
        ("", False),
    ],
)
async def test_dns_is_never_asked_for_an_onion_name(
    name: str, onion: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def look(host: str, *_: object) -> list[object]:
        asked.append(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look)
    resolver = SystemResolver()
    try:
        await resolver.resolve(name)
    except OSError:
        pass
    finally:
        await resolver.close()
    assert (is_onion(name), asked) == (onion, [] if onion else [name])
