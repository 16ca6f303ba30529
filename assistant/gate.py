"""The gate that each call of a tool passes: reads run, and all else waits for a person.

A call waits when it writes, starts a run, or would cost more than is left of the budget. Once the model has
read text from outside, whatever can reach others waits too, reads included: a stranger's text may have
chosen the target, and a name that is looked up tells its name server something.

The calls of one answer of the model are judged by what it had read before. What the first of them brings
cannot have chosen the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from assistant.bounds import BoundReached, Bounds
from assistant.fence import fence_result
from assistant.recorder import Recorder
from assistant.tools import ToolAnswer, Toolset, ToolSpec
from database import Connection
from models.chat import approvals, conversations
from models.chat.approvals import AskedApproval, TakenDecision
from models.chat.conversations import OpenedConversation

_LOOK_SECONDS = 2.0
_KEPT_RESULTS = 60
Subscribe = Callable[[UUID], AbstractContextManager[asyncio.Event]]
"""Yields an event that is set when something has happened to a message."""


@dataclass
class Spending:
    """What may still be spent.

    Attributes:
        budget: the credits of the conversation that need no approval.
        day: the credits of the account today.
        tool_calls: calls of tools of this message.
    """

    budget: int
    day: int
    tool_calls: int


class Card(NamedTuple):
    """What a card shows beside the call: why it needs an approval, and what it would do."""

    reasons: list[str]
    preview: dict[str, Any]


class Gate:
    """The gate of one message."""

    def __init__(
        self,
        toolset: Toolset,
        recorder: Recorder,
        opened: OpenedConversation,
        spending: Spending,
        clock: asyncio.Timeout,
        subscribe: Subscribe,
    ) -> None:
        """Prepare.

        Args:
            toolset: the tools of the person.
            recorder: of the answer.
            opened: the conversation.
            spending: what may still be spent.
            clock: the bound of time, which stands still while a call waits for a person.
            subscribe: wakes a waiting call.
        """
        self._toolset, self._recorder, self._clock, self._subscribe = toolset, recorder, clock, subscribe
        self._spending = spending
        self._specs = {spec.name: spec for spec in toolset.list_tools()}
        self._results = opened.memory.results
        self._is_tainted = self._was_tainted = opened.tainted

    def begin_round(self) -> None:
        """Note what the model has read when it is asked again."""
        self._was_tainted = self._is_tainted

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> str:
        """Call a tool, after a person's approval if it needs one; return what the model reads.

        Raises:
            BoundReached: there were too many calls, or the account has spent what it may in a day.
            LeaseLost: the answer was cancelled.
            Unauthenticated: the session has ended.
        """
        if self._spending.tool_calls <= 0:
            raise BoundReached("tool_calls")
        self._spending.tool_calls -= 1
        spec = self._specs[name]
        started = {"call_id": call_id, "tool": name, "title": spec.title, "arguments": arguments}
        await self._recorder.record(("tool", started), tool_calls=1)
        if reasons := self._find_reasons(spec, arguments):
            preview = await self._toolset.preview(name, arguments)
            if errors := preview.get("errors"):
                said = "\n".join(["invalid_input: the person has not been asked.", *map(str, errors[:20])])
                return await self._end_call(spec, call_id, ToolAnswer(said, refused=True))
            taken = await self._wait_for_approval(spec, arguments, call_id, Card(reasons, preview))
            if taken is None or taken.decision == "deny":
                said = (
                    "The person did not decide in time."
                    if taken is None
                    else "The person has denied this call."
                )
                return await self._end_call(spec, call_id, ToolAnswer(said, refused=True, ours=True))
            arguments = arguments if taken.arguments is None else taken.arguments
        await self._toolset.check_session()
        return await self._end_call(spec, call_id, await self._toolset.call(name, arguments))

    def _find_reasons(self, spec: ToolSpec, arguments: dict[str, Any]) -> list[str]:
        """Return why a call needs an approval; empty if it needs none."""
        credits = self._toolset.estimate_credits(spec.name, arguments) or 0
        if credits > self._spending.day:
            raise BoundReached("day_credits")
        return [
            *(["starts_or_replaces" if spec.destroys else "writes"] if not spec.reads else []),
            *(["outside_text"] if spec.outside and self._was_tainted else []),
            *(["budget"] if credits > self._spending.budget else []),
        ]

    async def _wait_for_approval(
        self, spec: ToolSpec, arguments: dict[str, Any], call_id: str, card: Card
    ) -> TakenDecision | None:
        """Show a card, and wait for a person's decision on it; None if there is none in ten minutes."""
        lease, asked = self._recorder.lease, list[AskedApproval]()

        async def ask(connection: Connection) -> None:
            keyring = self._recorder.keyring
            asked.append(await approvals.ask(connection, keyring, lease, call_id, spec.name, arguments))

        await self._recorder.record(write=ask)
        [approval] = asked
        shown = {
            "id": str(approval.id), "call_id": call_id, "tool": spec.name, "title": spec.title,
            "arguments": arguments, "arguments_hash": approval.arguments_hash, "reasons": card.reasons,
            "credits_max": self._toolset.estimate_credits(spec.name, arguments),
            "expires_at": approval.expires_at.isoformat(), "preview": card.preview,
        }  # fmt: skip
        ends, loop = self._clock.when(), asyncio.get_running_loop()
        began = loop.time()
        self._clock.reschedule(None)
        await self._recorder.record(("approval", shown), status="waiting")
        taken = await self._take_decision(approval)
        self._clock.reschedule(None if ends is None else ends + loop.time() - began)
        decision = "expired" if taken is None else taken.decision
        told: dict[str, Any] = {"id": str(approval.id), "call_id": call_id, "decision": decision}
        if taken is not None and taken.arguments is not None:
            told["arguments"] = taken.arguments
        await self._recorder.record(("decision", told), status="running")
        return taken

    async def _take_decision(self, approval: AskedApproval) -> TakenDecision | None:
        recorder, lease = self._recorder, self._recorder.lease
        with self._subscribe(lease.message_id) as woken:
            while True:
                woken.clear()
                async with recorder.database.transaction() as connection:
                    taken = await approvals.take_decision(
                        connection, recorder.keyring, lease.account_id, approval.id, approval.arguments_hash
                    )
                left = (approval.expires_at - datetime.now(UTC)).total_seconds()
                # The database decides what is late. A moment more is left for a decision in flight.
                if taken is not None or left < -_LOOK_SECONDS:
                    return taken
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await woken.wait()
                except TimeoutError:
                    continue

    async def _end_call(self, spec: ToolSpec, call_id: str, answer: ToolAnswer) -> str:
        """Record a result, and return it fenced."""
        number = f"r{max((int(one[1:]) for one in self._results), default=0) + 1}"
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._results[number] = {
            "tool": spec.name, "at": at, "facts": dict(answer.facts), "reads": spec.reads,
        }  # fmt: skip
        for old in list(self._results)[:-_KEPT_RESULTS]:
            del self._results[old]
        # The API's refusals may quote what was found.
        self._is_tainted = self._is_tainted or not (spec.ours or answer.ours)
        self._spending.budget -= answer.credits
        self._spending.day -= answer.credits
        lease = self._recorder.lease

        async def write(connection: Connection) -> None:
            await conversations.record_progress(
                connection, lease.account_id, lease.conversation_id,
                credits=answer.credits, tainted=self._is_tainted,
            )  # fmt: skip

        told = {"call_id": call_id, "result": number, "tool": spec.name, "refused": answer.refused,
                "credits": answer.credits}  # fmt: skip
        await self._recorder.record(("result", told), credits=answer.credits, write=write)
        return fence_result(number, spec.name, answer.text)


def limit_spending(bounds: Bounds, opened: OpenedConversation, used_credits: int) -> Spending:
    """Return what a message may spend, after what the account has spent within the day."""
    return Spending(opened.credits_left, max(0, bounds.day_credits - used_credits), bounds.tool_calls)
