"""Settings of odd text: one line that names the setting, says what it found, and what to give instead."""

from __future__ import annotations

import pytest

from settings import ExitCode, StartError, load

HIBP = "VEDETTE_PROVIDER_HIBP_BASE_URL"
TOKEN = "VEDETTE_METRICS_TOKEN"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("VEDETTE_ALLOWED_HOSTS", "https://a.example", "'https://a.example' is no host name: give names"),
        ("VEDETTE_ALLOWED_HOSTS", "a.example,b.example:8000", "'b.example:8000' is no host name: give names"),
        ("VEDETTE_ALLOWED_HOSTS", "*.example.com", "'*.example.com' is no host name: give names"),
        ("VEDETTE_ALLOWED_HOSTS", "::1", "'::1' is no host name: give names"),
        ("VEDETTE_ALLOWED_HOSTS", "münchen.example", "'münchen.example' is no host name: give names"),
        ("VEDETTE_BUILD_ID", "one two", "'one two' is no name: give 1 to 200"),
        ("VEDETTE_BUILD_ID", "x" * 201, f"'{'x' * 50}…' is no name: give 1 to 200"),
        ("TEMPORAL_NAMESPACE", "größe", "'größe' is no name: give 1 to 200"),
        ("TEMPORAL_NAMESPACE", "a\nb", "'a\\nb' is no name: give 1 to 200"),
        ("VEDETTE_PUBLIC_URL", "https://a.example:99999", "give the address"),
        ("VEDETTE_PUBLIC_URL", "https://[::1", "give the address"),
        ("VEDETTE_TEMPORAL_UI", "2", "give 0, 1, or the address of Temporal's pages"),
        ("VEDETTE_TEMPORAL_UI", "127.0.0.1:8233", "give 0, 1, or the address of Temporal's pages"),
        ("VEDETTE_TEMPORAL_UI", "http://127.0.0.1:8233", "an address is for a server of your own"),
        ("VEDETTE_CHAT_BASE_URL", "http://127.0.0.1:port/v1", "give the root of an OpenAI-compatible API"),
        (HIBP, "mirror.example.com", "no address of a server: give the root of its API"),
        (HIBP, "https://", "no address of a server: give the root of its API"),
        (HIBP, "ftp://mirror.example.com", "no address of a server: give the root of its API"),
        (HIBP, "https://mirror.example.com:port", "no address of a server: give the root of its API"),
        (HIBP, "https://mirror.example.com?key=hush", "no address of a server: give the root of its API"),
        (HIBP, "https://mirror.example.com,", "no address of a server: give the root of its API"),
        (TOKEN, "hüsh", "no header can carry it: give visible ASCII characters"),
        (TOKEN, "hush\nhush", "no header can carry it: give visible ASCII characters"),
        (TOKEN, " hush", "no header can carry it: give visible ASCII characters"),
        ("TEMPORAL_API_KEY", "hüsh", "no header can carry it: give visible ASCII characters"),
        ("VEDETTE_CHAT_KEY", "hush\nhush", "no header can carry it: give visible ASCII characters"),
        ("VEDETTE_PROVIDER_HIBP_KEY", "hüsh", "no header can carry it: give visible ASCII characters"),
    ],
)
def test_it_is_refused_in_one_line(name: str, value: str, told: str) -> None:
    with pytest.raises(StartError) as refused:
        load({name: value, "VEDETTE_CHAT_MODEL": "m"} if "CHAT" in name else {name: value})
    said = str(refused.value)
    assert refused.value.exit_code == ExitCode.SETTING and said.startswith(f"{name}: {told}")
    assert "\n" not in said and "hush" not in said and "hüsh" not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VEDETTE_ALLOWED_HOSTS", "*"),
        ("VEDETTE_ALLOWED_HOSTS", "a.example, [::1],127.0.0.1,my_host,xn--mnchen-3ya.example"),
        ("VEDETTE_BUILD_ID", "registry.example/vedette@sha256:0a1b"),
        ("TEMPORAL_NAMESPACE", "vedette.a1b2c"),
        ("VEDETTE_PUBLIC_URL", "https://[2001:db8::1]:8443/vedette/"),
        (HIBP, "http://user:password@127.0.0.1:9/v3/"),
        ("VEDETTE_PROVIDER_MX_BASE_URL", "dns://192.0.2.1:53, dns://192.0.2.2"),
        ("VEDETTE_PROVIDER_WHOIS_BASE_URL", "whois://192.0.2.1:43"),
        ("VEDETTE_PROVIDER_TLS_BASE_URL", "tls://192.0.2.1:443"),
        ("VEDETTE_PROVIDER_INTELX_BASE_URL", "https://2.intelx.io,https://free.intelx.io"),
        (TOKEN, "a token of words"),
    ],
)
def test_it_is_taken_where_it_makes_sense(name: str, value: str) -> None:
    load({name: value})


@pytest.mark.parametrize(
    ("value", "read"),
    [("0", False), ("no", False), ("1", True), ("True", True), ("https://t.example/", "https://t.example")],
)
def test_temporals_pages_are_the_built_in_ones_or_have_an_address(value: str, read: bool | str) -> None:
    settings = load({"VEDETTE_TEMPORAL_UI": value, "TEMPORAL_ADDRESS": "t.example:7233"})
    assert settings.temporal_ui == read
