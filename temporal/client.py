"""The one way this project's processes connect to Temporal: sealed payloads, Pydantic models in and out."""

from __future__ import annotations

from temporalio.client import Client

from sealing import Keyring
from settings import Settings
from temporal.converter import data_converter

TASK_QUEUE = "vedette"


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
