"""A whole service for the dashboard: its sources are GreyNoise and AbuseIPDB, on loopback, and local data."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from providers.registry import KINDS
from providers.sources.base import RemoteSource
from tests.datasets import write_small_datasets
from tests.stacks import CLI, StackProcess

SCANNED = ("greynoise", "abuseipdb")


@asynccontextmanager
async def running(data: Path, scanned: str, **names: str) -> AsyncGenerator[StackProcess]:
    """Run `vedette up` for the block; `scanned` is the address of what stands for the two sources."""
    write_small_datasets(data)
    every = {
        source.spec.name
        for kind in KINDS.values()
        for source in kind.sources
        if isinstance(source, RemoteSource)
    }
    settings = {f"VEDETTE_PROVIDER_{name.upper()}_ENABLED": "0" for name in every.difference(SCANNED)}
    for name in SCANNED:
        settings[f"VEDETTE_PROVIDER_{name.upper()}_KEY"] = "k"
        settings[f"VEDETTE_PROVIDER_{name.upper()}_RATE"] = "off"
        settings[f"VEDETTE_PROVIDER_{name.upper()}_BASE_URL"] = f"{scanned}/{name}"
    settings |= {
        "VEDETTE_LOCAL_ONLY": "",
        "VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32",
        "VEDETTE_LIMIT_LOGIN": "off",
    }
    stack = StackProcess(data, None, CLI, **settings, **names)
    try:
        yield await stack.ready()
    finally:
        await stack.stop()
