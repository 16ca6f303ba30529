"""The tools of the assistant, as it sees them: what they are called, what they do, how they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class ToolSpec:
    """A tool.

    Attributes:
        name: for the model.
        title: for people.
        description: what the model reads of it.
        parameters: the JSON Schema of its arguments.
        reads: whether it changes nothing.
        destroys: whether it replaces or deletes, or starts what cannot be undone.
        outside: whether its arguments can reach others: sources, receivers, name servers.
        ours: whether its answers hold nothing that a stranger may have written.
    """

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    reads: bool
    destroys: bool
    outside: bool
    ours: bool


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool.

    Attributes:
        text: JSON, or the words of a refusal.
        refused: whether it is a refusal.
        credits: what it cost.
        facts: by path, the source of a value and the time of its answer.
        ours: whether it holds nothing that a stranger may have written, whatever the tool's answers hold.
    """

    text: str
    refused: bool = False
    credits: int = 0
    facts: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    ours: bool = False


class Toolset(Protocol):
    """The tools, called in the name of the person who has sent the message."""

    def list_tools(self) -> Sequence[ToolSpec]:
        """Return all tools."""
        ...

    async def check_session(self) -> None:
        """Check that the person's session has not ended.

        Raises:
            Unauthenticated: it has.
        """
        ...

    def estimate_credits(self, name: str, arguments: Mapping[str, Any]) -> int | None:
        """Return the most credits that a call can cost; None if nobody knows before."""
        ...

    async def preview(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a call would do: for the card that a person reads before it is made."""
        ...

    def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Check arguments that a person has put in.

        Raises:
            Invalid: they do not fit the tool.
        """
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool. A refusal is an answer, too."""
        ...
