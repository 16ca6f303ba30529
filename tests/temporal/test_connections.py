"""A Temporal server of the operator's own: TLS, client certificates, an API key, a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

import settings as settings_module
from database import Database
from embedded.temporal import Temporal, prepare_given
from sealing import Keyring
from services.operator.connections import check_temporal
from settings import ExitCode, Settings, StartError
from temporal.client import connect, connection
from tests.automations.engine import NewTarget, accept, ended, working
from tests.stacks import eventually, vedette
from tests.temporal.tls import Authority, Proxy, in_front_of

# The codes of RFC 7541, appendix B, of the characters in `Bearer 0a1c2e`.
_HUFFMAN = {
    "0": "00000", "1": "00001", "2": "00010", "a": "00011", "c": "00100", "e": "00101", " ": "010100",
    "r": "101100", "B": "1011101",
}  # fmt: skip


def in_headers(text: str) -> bytes:
    """A value as HTTP/2 sends it the first time: packed, and filled up with ones."""
    bits = "".join(_HUFFMAN[character] for character in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def load(**names: object) -> Settings:
    return settings_module.load({name: str(value) for name, value in names.items()})


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
async def tls(temporal_server: Temporal, authority: Authority) -> AsyncGenerator[Proxy]:
    """The real server, behind TLS with a certificate that the authority has signed."""
    async with in_front_of(temporal_server.address, authority.issue("server")) as proxy:
        yield proxy


@dataclass
class Mutual:
    """A server that asks for a client certificate, and one that it accepts."""

    address: str
    certificate: Path
    key: Path


@pytest.fixture
async def mutual(temporal_server: Temporal, authority: Authority) -> AsyncGenerator[Mutual]:
    server = in_front_of(temporal_server.address, authority.issue("server"), clients=authority.file)
    async with server as proxy:
        yield Mutual(proxy.address, *authority.issue("client"))


async def test_a_certificate_of_a_known_authority_is_accepted(tls: Proxy, authority: Authority) -> None:
    await prepare_given(load(TEMPORAL_ADDRESS=tls.address, TEMPORAL_TLS_CA_FILE=authority.file))


async def test_a_certificate_of_another_authority_is_refused(tls: Proxy, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    with pytest.raises(StartError, match=r"certificate is not accepted .*TEMPORAL_TLS_CA_FILE") as caught:
        await check_temporal(load(TEMPORAL_ADDRESS=tls.address, TEMPORAL_TLS_CA_FILE=other.file))
    assert caught.value.exit_code == ExitCode.TEMPORAL
    with pytest.raises(StartError, match="certificate is not accepted"):
        await check_temporal(load(TEMPORAL_ADDRESS=tls.address, TEMPORAL_TLS=1))


async def test_a_certificate_for_another_address_is_refused(
    temporal_server: Temporal, authority: Authority
) -> None:
    certificate = authority.issue("elsewhere", "192.0.2.1")
    async with in_front_of(temporal_server.address, certificate) as proxy:
        with pytest.raises(StartError, match="TEMPORAL_ADDRESS a name that stands in it"):
            await check_temporal(load(TEMPORAL_ADDRESS=proxy.address, TEMPORAL_TLS_CA_FILE=authority.file))


async def test_a_client_certificate_is_shown(mutual: Mutual, authority: Authority) -> None:
    await check_temporal(
        load(
            TEMPORAL_ADDRESS=mutual.address,
            TEMPORAL_TLS_CA_FILE=authority.file,
            TEMPORAL_TLS_CERT_FILE=mutual.certificate,
            TEMPORAL_TLS_KEY_FILE=mutual.key,
        )
    )


async def test_without_the_client_certificate_that_is_asked_for_it_is_said(
    mutual: Mutual, authority: Authority
) -> None:
    with pytest.raises(StartError, match=r"client certificate.*TEMPORAL_TLS_CERT_FILE"):
        await check_temporal(load(TEMPORAL_ADDRESS=mutual.address, TEMPORAL_TLS_CA_FILE=authority.file))


async def test_a_client_certificate_of_a_stranger_is_refused(
    mutual: Mutual, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = Authority(tmp_path, "stranger").issue("forged")
    with pytest.raises(StartError, match=r"client certificate.*one that it knows"):
        await check_temporal(
            load(
                TEMPORAL_ADDRESS=mutual.address,
                TEMPORAL_TLS_CA_FILE=authority.file,
                TEMPORAL_TLS_CERT_FILE=certificate,
                TEMPORAL_TLS_KEY_FILE=key,
            )
        )


async def test_tls_where_there_is_none_and_none_where_there_is_are_told_apart(
    temporal_server: Temporal, tls: Proxy
) -> None:
    with pytest.raises(StartError, match="does not speak TLS: unset TEMPORAL_TLS"):
        await check_temporal(load(TEMPORAL_ADDRESS=temporal_server.address, TEMPORAL_TLS=1))
    with pytest.raises(StartError, match="set TEMPORAL_TLS=1"):
        await check_temporal(load(TEMPORAL_ADDRESS=tls.address))


async def test_an_api_key_goes_with_each_call_and_turns_tls_on(tls: Proxy, authority: Authority) -> None:
    address = {"TEMPORAL_ADDRESS": tls.address, "TEMPORAL_TLS_CA_FILE": authority.file}
    await check_temporal(load(**address))
    assert in_headers("Bearer 0a1c2e") not in tls.heard
    await check_temporal(load(**address, TEMPORAL_API_KEY="0a1c2e"))
    assert in_headers("Bearer 0a1c2e") in tls.heard


async def test_an_api_key_goes_without_tls_only_when_that_is_asked_for(temporal_server: Temporal) -> None:
    given = {"TEMPORAL_ADDRESS": temporal_server.address, "TEMPORAL_API_KEY": "0a1c2e"}
    with pytest.raises(StartError, match="does not speak TLS"):
        await check_temporal(load(**given))
    await check_temporal(load(**given, TEMPORAL_TLS=0))


async def test_an_api_key_can_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0a1c2e\n")
    options = connection(load(TEMPORAL_ADDRESS="t:7233", TEMPORAL_API_KEY_FILE=tmp_path / "key"))
    assert options["api_key"] == "0a1c2e" and options["tls"]


async def test_a_namespace_that_is_not_there_is_named(temporal_server: Temporal) -> None:
    with pytest.raises(StartError, match=r"namespace nowhere\).*Namespace nowhere is not found"):
        await check_temporal(load(TEMPORAL_ADDRESS=temporal_server.address, TEMPORAL_NAMESPACE="nowhere"))


@pytest.fixture
async def beyond(
    mutual: Mutual, authority: Authority, live_settings: Settings, temporal_server: Temporal
) -> Settings:
    """Settings with all that there is: mutual TLS, an API key, a namespace of its own."""
    client = await Client.connect(temporal_server.address)
    name = f"beyond-{uuid4()}"
    kept = Duration(seconds=86400)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    )
    given = load(
        TEMPORAL_ADDRESS=mutual.address,
        TEMPORAL_NAMESPACE=name,
        TEMPORAL_TLS_CA_FILE=authority.file,
        TEMPORAL_TLS_CERT_FILE=mutual.certificate,
        TEMPORAL_TLS_KEY_FILE=mutual.key,
        TEMPORAL_API_KEY="0a1c2e",
    )
    names = [name for name in Settings.model_fields if name.startswith("temporal_")]
    settings = live_settings.model_copy(update={name: getattr(given, name) for name in names})

    async def there() -> bool:
        try:
            await prepare_given(settings)
        except StartError:
            return False
        return True

    await eventually(there, 30, "the new namespace is known")
    return settings


async def test_a_run_goes_the_whole_way_through_tls(
    beyond: Settings, database: Database, keyring: Keyring, new_target: NewTarget
) -> None:
    client = await connect(beyond, keyring)
    target = await new_target()
    [run_id] = await accept(database, target)
    async with working(beyond, client, database, keyring) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    found = [one.workflow_type async for one in client.list_workflows("WorkflowType = 'AutomationRun'")]
    assert found == ["AutomationRun"]


async def test_doctor_looks_through_tls(mutual: Mutual, authority: Authority, tmp_path: Path) -> None:
    given = {
        "TEMPORAL_ADDRESS": mutual.address,
        "TEMPORAL_TLS_CA_FILE": str(authority.file),
        "TEMPORAL_TLS_CERT_FILE": str(mutual.certificate),
        "TEMPORAL_TLS_KEY_FILE": str(mutual.key),
    }
    done = await asyncio.to_thread(vedette, tmp_path / "data", "doctor", **given)
    assert f"answers at {mutual.address}" in done.stdout


@pytest.mark.parametrize("process", ["api", "worker"])
async def test_a_process_that_cannot_use_a_file_ends_and_says_so(
    process: str, settings: Settings, keyring: Keyring, database: Database
) -> None:
    given = {"TEMPORAL_ADDRESS": "127.0.0.1:9", "TEMPORAL_TLS_CA_FILE": "/nowhere"}
    done = await asyncio.to_thread(vedette, settings.data, process, DATABASE_URL=database.url, **given)
    assert done.stderr.splitlines()[-1].startswith("TEMPORAL_TLS_CA_FILE: cannot read /nowhere")
    assert done.returncode == ExitCode.SETTING


class TestWhatDoesNotFit:
    """Each says which setting, and what to do; nothing is connected to."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, Path]:
        authority = Authority(tmp_path, "authority")
        certificate, key = authority.issue("client")
        _, other = authority.issue("other")
        return {"ca": authority.file, "certificate": certificate, "key": key, "other": other}

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"CA_FILE": "/nowhere"}, "TEMPORAL_TLS_CA_FILE: cannot read /nowhere as user .*: No such file"),
            ({"CA_FILE": "key"}, "TEMPORAL_TLS_CA_FILE: .* holds no certificate in PEM form"),
            ({"CERT_FILE": "key", "KEY_FILE": "key"}, "TEMPORAL_TLS_CERT_FILE: .* holds no certificate"),
            ({"CERT_FILE": "certificate", "KEY_FILE": "ca"}, "TEMPORAL_TLS_KEY_FILE: .* no private key"),
            ({"CERT_FILE": "certificate", "KEY_FILE": "other"}, "TEMPORAL_TLS_KEY_FILE: is not the key of"),
            (
                {"CERT_FILE": "certificate"},
                "_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together",
            ),
            ({"KEY_FILE": "key"}, "_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together"),
        ],
    )
    def test_a_file(self, files: dict[str, Path], given: dict[str, str], said: str) -> None:
        names: dict[str, Any] = {
            f"TEMPORAL_TLS_{name}": files.get(file, file) for name, file in given.items()
        }
        with pytest.raises(StartError, match=said) as caught:
            connection(load(TEMPORAL_ADDRESS="127.0.0.1:7233", **names))
        assert caught.value.exit_code == ExitCode.SETTING

    def test_a_file_beside_tls_that_is_off(self, files: dict[str, Path]) -> None:
        with pytest.raises(StartError, match="TEMPORAL_TLS_CA_FILE: TEMPORAL_TLS is off"):
            load(TEMPORAL_ADDRESS="t:7233", TEMPORAL_TLS=0, TEMPORAL_TLS_CA_FILE=files["ca"])

    @pytest.mark.parametrize("name", ["TEMPORAL_TLS", "TEMPORAL_API_KEY", "TEMPORAL_TLS_CA_FILE"])
    def test_a_setting_of_a_given_server_without_one(self, name: str) -> None:
        with pytest.raises(StartError, match=f"{name}: .* Set TEMPORAL_ADDRESS"):
            load(**{name: "1"})
