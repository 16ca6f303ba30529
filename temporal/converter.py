"""What Temporal stores of us: Pydantic models as JSON, sealed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from sealing import Keyring


def data_converter(keyring: Keyring) -> DataConverter:
    """Pydantic models as JSON, sealed; failures too, so that no message stands in clear in a history."""
    return dataclasses.replace(
        pydantic_data_converter,
        payload_codec=SealingCodec(keyring),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


class SealingCodec(PayloadCodec):
    """Keeps every payload in Temporal's store and on its wire unreadable without the keyring."""

    _ENCODING = b"binary/vedette-sealed"

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal each payload whole, its metadata included."""
        return [
            Payload(
                metadata={"encoding": self._ENCODING},
                data=self._keyring.seal("temporal", payload.SerializeToString()),
            )
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open what `encode` sealed; what was never sealed passes as it is."""
        return [self._open(payload) for payload in payloads]

    def _open(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != self._ENCODING:
            return payload
        return Payload.FromString(self._keyring.open("temporal", payload.data))
