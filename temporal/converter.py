"""The stored form of payloads in Temporal: Pydantic models as JSON, sealed for their workflow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    EncodingPayloadConverter,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
)
from temporalio.exceptions import ApplicationError

from sealing import Keyring, UnsealError

READABLE = "run/"
"""The prefix of the ids of workflows whose payloads stay readable: ids, names of steps, kinds and codes."""
REFUSED = "payload_refused"
"""The type of the error for a refused payload."""

_SEALED, _REFUSED_ENCODING = b"binary/vedette-sealed", b"binary/vedette-refused"
# The suffix that a Schedule appends to the workflow id of its action.
_SCHEDULED_AT = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


def data_converter(keyring: Keyring) -> DataConverter:
    """Return the converter: Pydantic models as sealed JSON, and failures sealed too.

    So no message is in clear text in a history.
    """
    return dataclasses.replace(
        pydantic_data_converter,
        payload_converter_class=_Converter,
        payload_codec=SealingCodec(keyring),
        failure_converter_class=_Failures,
    )


class SealingCodec(PayloadCodec, WithSerializationContext):
    """Makes payloads in Temporal's store and on its wire unreadable and unforgeable without the keyring.

    A payload is sealed for one workflow id: copied to another workflow it does not open. A payload that does
    not open raises no error here, where it would fail a workflow's task for ever. It becomes a payload from
    which no value can be made, so that each reader refuses it in its own way: a start fails, a signal is
    dropped, a caller gets an error. An unread one does no harm.
    """

    def __init__(self, keyring: Keyring, workflow_id: str = "") -> None:
        self._keyring = keyring
        self._workflow_id = workflow_id

    def with_context(self, context: SerializationContext) -> SealingCodec:
        """Return a codec for the workflow that the context names."""
        workflow_id: str | None = getattr(context, "workflow_id", None)
        return SealingCodec(self._keyring, _SCHEDULED_AT.sub("", workflow_id or ""))

    @property
    def _is_readable(self) -> bool:
        """Return whether payloads of this workflow stay readable: ids and names, for Temporal's pages."""
        return self._workflow_id.startswith(READABLE)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal each payload as a whole, with its metadata; payloads of users' runs stay readable."""
        if self._is_readable:
            return list(payloads)
        return [
            Payload(
                metadata={"encoding": _SEALED},
                data=self._keyring.seal("temporal", payload.SerializeToString(), self._workflow_id),
            )
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open payloads that `encode` sealed for this workflow; any other becomes a refused payload."""
        if self._is_readable:
            return list(payloads)
        return [self._open(payload) for payload in payloads]

    def _open(self, payload: Payload) -> Payload:
        # Without a workflow id: sealed by a release that did not bind payloads yet, in a history that is
        # still open.
        for workflow_id in (self._workflow_id, ""):
            if payload.metadata.get("encoding") == _SEALED:
                try:
                    return Payload.FromString(self._keyring.open("temporal", payload.data, workflow_id))
                except UnsealError:
                    continue
        return Payload(metadata={"encoding": _REFUSED_ENCODING})


class _Failures(DefaultFailureConverter, WithSerializationContext):
    """Seals messages and stack traces; for readable workflows, reduces a failure to its type.

    A message may quote data that an expression or a database read.
    """

    def __init__(self, *, is_readable: bool = False) -> None:
        super().__init__(encode_common_attributes=not is_readable)
        self._is_readable = is_readable

    def with_context(self, context: SerializationContext) -> _Failures:
        workflow_id: str | None = getattr(context, "workflow_id", None)
        return _Failures(is_readable=(workflow_id or "").startswith(READABLE))

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        super().to_failure(exception, payload_converter, failure)
        told = failure
        while self._is_readable:
            told.stack_trace = ""
            if told.HasField("application_failure_info"):
                told.message = told.application_failure_info.type
                told.application_failure_info.ClearField("details")
            if not told.HasField("cause"):
                break
            told = told.cause


class _Refusing(EncodingPayloadConverter):
    """Raises for payloads that the codec has refused."""

    @property
    def encoding(self) -> str:
        return _REFUSED_ENCODING.decode()

    def to_payload(self, value: Any) -> Payload | None:
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        raise ApplicationError(
            "A payload is not sealed with a key of this installation for this workflow.",
            type=REFUSED,
            non_retryable=True,
        )


class _Converter(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(*PydanticPayloadConverter().converters.values(), _Refusing())
