"""The bounds of an answer, and of what an account may use within a day."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT = 8_000
"""The most characters of a message."""
DEFAULT_BUDGET, MAX_BUDGET = 20, 1_000
"""The credits that lookups of a conversation may spend without an approval."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of one answer, and of an account within a day.

    Attributes:
        requests: requests to the model.
        tool_calls: calls of tools.
        tokens: tokens of all requests and answers.
        characters: text of the answer to one request; no model fits more into the tokens that it may use.
        seconds: its time, without waits for approvals.
        stall_seconds: the time without a byte from the model.
        history_bytes: of earlier messages that the model reads again.
        day_messages: messages of an account within a day.
        day_tokens: tokens of an account within a day.
        day_credits: credits of an account's lookups within a day.
    """

    requests: int = 12
    tool_calls: int = 30
    tokens: int = 200_000
    characters: int = 256 * 1024
    seconds: float = 300
    stall_seconds: float = 60
    history_bytes: int = 256 * 1024
    day_messages: int = 200
    day_tokens: int = 2_000_000
    day_credits: int = 500


class BoundReached(Exception):
    """An answer has reached a bound: it ends with what it has.

    Attributes:
        name: of the bound.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
