"""The one way this project's processes connect to Temporal: sealed payloads, Pydantic models in and out."""

from __future__ import annotations

import dataclasses

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes

from sealing import Keyring, SealingCodec
from settings import Settings

TASK_QUEUE = "vedette"


def data_converter(keyring: Keyring) -> DataConverter:
    """Pydantic models as JSON, sealed; failures too, so that no message stands in clear in a history."""
    return dataclasses.replace(
        pydantic_data_converter,
        payload_codec=SealingCodec(keyring),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


async def connect(settings: Settings, keyring: Keyring, *, lazy: bool = False) -> Client:
    """Connect to the Temporal server that the settings name.

    Args:
        settings: `temporal_address` must be set (the supervisor sets it for the embedded server).
        keyring: seals the payloads.
        lazy: connect at the first call, so that a process can start while the server is away.

    Raises:
        RuntimeError: if the server cannot be reached and `lazy` is false.
    """
    return await Client.connect(
        settings.temporal_address or "127.0.0.1:7233",
        namespace=settings.temporal_namespace,
        data_converter=data_converter(keyring),
        lazy=lazy,
    )
