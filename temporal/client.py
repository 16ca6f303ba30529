"""The connection of this project's processes to Temporal: sealed payloads, Pydantic models in and out."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypedDict

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, LoggingFormat, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

import logs
from sealing import Keyring
from settings import ExitCode, Settings, StartError
from temporal.attributes import WithoutIfRefused
from temporal.converter import data_converter
from temporal.sdk_metrics import find_metrics_export

_log = logs.get(__name__)
TASK_QUEUE = "vedette"
TEMPORAL_AWAY = (RPCError, TimeoutError, RuntimeError)
"""The errors of a call while Temporal is away; the last one if a lazy client has not connected yet."""


@contextmanager
def unless_missing() -> Generator[None]:
    """Stop the block, without an error, where the server does not have what it asks for."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


class Connection(TypedDict):
    """The arguments of `Client.connect` that the settings determine."""

    target_host: str
    namespace: str
    api_key: str | None
    tls: TLSConfig | bool


async def connect(settings: Settings, keyring: Keyring, *, lazy: bool = False) -> Client:
    """Connect to the Temporal server that the settings name.

    Args:
        settings: `temporal_address` must be set (the supervisor sets it for the embedded server).
        keyring: seals the payloads.
        lazy: connect at the first call, so that a process can start while the server is away.

    Raises:
        StartError: if a file that the settings name cannot be used.
        RuntimeError: if the server cannot be reached and `lazy` is false.
    """
    return await Client.connect(
        **connection(settings),
        runtime=_runtime(),
        data_converter=data_converter(keyring),
        interceptors=[WithoutIfRefused()],
        lazy=lazy,
    )


@cache
def _runtime() -> Runtime:
    """Make the SDK's own log one of JSON, as the rest is unless it is written to a terminal.

    Its metrics are sent where OpenTelemetry's variables say.
    """
    log = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        format=None if sys.stderr.isatty() else LoggingFormat.JSON,
    )
    try:
        return Runtime(telemetry=TelemetryConfig(logging=log, metrics=find_metrics_export()))
    except ValueError as error:
        hint = "OTEL_EXPORTER_OTLP_ENDPOINT needs an address such as http://collector:4318"
        _log.warning("sdk_metrics_not_exported", error=str(error), hint=hint)
        return Runtime(telemetry=TelemetryConfig(logging=log))


def connection(settings: Settings) -> Connection:
    """Return the arguments for connecting to the Temporal server that the settings name.

    TLS is on if it is requested, or if there is an API key or a file for it.

    Raises:
        StartError: names the setting whose file cannot be read or has other content.
    """
    key = settings.temporal_api_key.get_secret_value() if settings.temporal_api_key else None
    files = TLSConfig(
        server_root_ca_cert=_certificates(settings.temporal_tls_ca_file, "TEMPORAL_TLS_CA_FILE"),
        client_cert=_certificates(settings.temporal_tls_cert_file, "TEMPORAL_TLS_CERT_FILE"),
        client_private_key=_private_key(settings.temporal_tls_key_file, "TEMPORAL_TLS_KEY_FILE"),
    )
    if files.client_cert and files.client_private_key:
        _check_pair(files.client_cert, files.client_private_key)
    wanted = settings.temporal_tls
    return Connection(
        target_host=settings.temporal_address or "127.0.0.1:7233",
        namespace=settings.temporal_namespace,
        api_key=key,
        tls=files if (key or files != TLSConfig() if wanted is None else wanted) else False,
    )


def _certificates(path: Path | None, name: str) -> bytes | None:
    if path is None:
        return None
    content = _content(path, name)
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError:
        raise StartError(f"{name}: {path} holds no certificate in PEM form.", ExitCode.SETTING) from None
    return content


def _private_key(path: Path | None, name: str) -> bytes | None:
    if path is None:
        return None
    content = _content(path, name)
    try:
        load_pem_private_key(content, password=None)
    except (ValueError, TypeError):  # TypeError if it has a password
        message = f"{name}: {path} holds no private key in PEM form without a password."
        raise StartError(message, ExitCode.SETTING) from None
    return content


def _content(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{name}: cannot read {path} as user {os.geteuid()}: {error.strerror}"
        raise StartError(message, ExitCode.SETTING) from None


def _check_pair(certificates: bytes, private_key: bytes) -> None:
    certificate = x509.load_pem_x509_certificates(certificates)[0]
    if certificate.public_key() != load_pem_private_key(private_key, password=None).public_key():
        raise StartError(
            "TEMPORAL_TLS_KEY_FILE: is not the key of the first certificate in TEMPORAL_TLS_CERT_FILE.",
            ExitCode.SETTING,
        )
