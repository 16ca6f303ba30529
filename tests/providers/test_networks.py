"""Where an address is, by the data on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.datasets.installed import Datasets
from providers.lookup.local import LocalSources
from providers.lookup.networks import network_of
from providers.registry import KINDS
from providers.sources.aggregate import types_of
from tests.datasets import write_small_datasets

IP = KINDS["ip"]


def where(data: Path, address: str) -> str:
    off = {source.spec.name: None for source in IP.sources}
    types = {source.spec.name: types_of(source, IP.answer) for source in IP.sources}
    return network_of(IP, LocalSources({"ip": IP}, off, types, Datasets(data)), address)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("8.8.8.8", "AS15169 US"),
        ("8.8.8.200", "AS15169 US"),
        ("1.1.1.1", "AS13335 AU"),
        ("2606:4700::1", "AS13335 CA"),
        ("192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("no address", "no address"),
    ],
)
def test_an_address_is_in_a_network_and_a_country_or_stands_for_itself(
    tmp_path: Path, address: str, place: str
) -> None:
    write_small_datasets(tmp_path)
    assert where(tmp_path, address) == place


def test_without_data_an_address_stands_for_itself(tmp_path: Path) -> None:
    assert where(tmp_path, "8.8.8.8") == "8.8.8.8"
