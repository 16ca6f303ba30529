"""The answer to one message: the model and the tools, in turns, until the model asks nothing further."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Any, NamedTuple

import openai
from pydantic_ai import Agent, ModelRequestNode
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.run import AgentRun
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

import logs
from assistant.agent_tools import GatedTools
from assistant.bounds import BoundReached, Bounds
from assistant.citations import cite_lines
from assistant.gate import Gate, Subscribe, limit_spending
from assistant.instructions import write_instructions
from assistant.recorder import Recorder
from assistant.tools import Toolset
from database import Connection
from models.chat import conversations, messages
from models.chat.conversations import OpenedConversation
from models.errors import Unauthenticated
from outbound.client import Outbound
from settings import Settings

_log = logs.get(__name__)
_ANSWER_TOKENS = 4096
# A model may call tools that are not there, or with arguments that do not fit, this often in a row.
_MISTAKES = 4
_RETRIES = 2


@dataclass(frozen=True)
class AnswerResources:
    """The settings, clients and bounds of an answer.

    Attributes:
        settings: the model's address, name and key.
        outbound: makes the model's client.
        bounds: of the answer.
        subscribe: wakes a call that waits for an approval.
    """

    settings: Settings
    outbound: Outbound
    bounds: Bounds
    subscribe: Subscribe


class Question(NamedTuple):
    """A message to answer: its text, the note about what is open, and what was used within the day."""

    text: str
    note: str
    credits_today: int


class Answering:
    """Answers one message."""

    def __init__(
        self, resources: AnswerResources, recorder: Recorder, toolset: Toolset, opened: OpenedConversation
    ) -> None:
        self._resources, self._recorder, self._toolset, self._opened = resources, recorder, toolset, opened
        self._said = list[str]()
        self._tokens = self._room = 0
        self._history: Sequence[ModelMessage] = ()

    async def answer(self, question: Question) -> None:
        """Answer, and record the end.

        Raises:
            LeaseLost: the message was cancelled, or the lease has run out.
        """
        status, reason = "completed", None
        try:
            async with asyncio.timeout(self._resources.bounds.seconds) as clock:
                await self._converse(question, clock)
        except BoundReached as reached:
            reason = reached.name
        except TimeoutError:
            reason = "seconds"
        except Unauthenticated:
            status, reason = "failed", "session_ended"
        except (ModelAPIError, openai.OpenAIError) as error:
            status, reason = "failed", _name_model_error(error)
        except UnexpectedModelBehavior as error:
            _log.info("chat_model_confused", error=str(error)[:500])
            status, reason = "failed", "model_confused"
        await self._end(status, reason)

    async def _converse(self, question: Question, clock: asyncio.Timeout) -> None:
        spending = limit_spending(self._resources.bounds, self._opened, question.credits_today)
        gate = Gate(self._toolset, self._recorder, self._opened, spending, clock, self._resources.subscribe)
        prompt = f"{question.note}\n\n{question.text}" if question.note else question.text
        history = _read_history(self._opened.memory.history, self._resources.bounds.history_bytes)
        self._history = [*history, ModelRequest(parts=[UserPromptPart(prompt)])]
        async with AsyncExitStack() as stack:
            agent = Agent(
                await self._open_model(stack),
                deps_type=NoneType,
                instructions=write_instructions(datetime.now(UTC)),
                toolsets=[GatedTools(self._toolset.list_tools(), gate, _MISTAKES)],
                model_settings=ModelSettings(max_tokens=_ANSWER_TOKENS),
                retries=_MISTAKES,
            )
            limits = UsageLimits(request_limit=None)
            run = await stack.enter_async_context(
                agent.iter(prompt, message_history=history, usage_limits=limits)
            )
            async for node in run:
                if Agent.is_model_request_node(node):
                    gate.begin_round()
                    self._check_bounds(run)
                    await self._read_answer(node, run)
                    await self._count(run)
                elif Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
                self._history = run.all_messages()

    async def _open_model(self, stack: AsyncExitStack) -> OpenAIChatModel:
        settings = self._resources.settings
        assert settings.chat_base_url is not None and settings.chat_model is not None
        http = self._resources.outbound.model_client(
            settings.chat_base_url, self._resources.bounds.stall_seconds
        )
        await stack.enter_async_context(http)
        key = settings.chat_key.get_secret_value() if settings.chat_key else "none"
        client = openai.AsyncOpenAI(
            base_url=settings.chat_base_url, api_key=key, http_client=http, max_retries=_RETRIES
        )
        return OpenAIChatModel(settings.chat_model, provider=OpenAIProvider(openai_client=client))

    def _check_bounds(self, run: AgentRun[None, str]) -> None:
        bounds = self._resources.bounds
        if run.usage.requests >= bounds.requests:
            raise BoundReached("requests")
        if self._tokens >= bounds.tokens:
            raise BoundReached("tokens")

    async def _read_answer(self, node: ModelRequestNode[None, str], run: AgentRun[None, str]) -> None:
        """Read the answer to one request, and keep its text.

        Raises:
            BoundReached: its text is too long.
            UnexpectedModelBehavior: it has another form than the protocol's, or text that is no Unicode.
        """
        self._said.clear()
        self._room = self._resources.bounds.characters
        try:
            async with node.stream(run.ctx) as stream:
                async for event in stream:
                    self._add_text(event)
                ModelMessagesTypeAdapter.dump_json([stream.response])
        # The libraries of the protocol trust the types of what they read.
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            self._history = _drop_last_response(run.all_messages())
            raise UnexpectedModelBehavior(f"{type(error).__name__}: {error}") from error

    def _add_text(self, event: object) -> None:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                text.encode()  # half of a surrogate pair could not be stored
                room, self._room = self._room, max(0, self._room - len(text))
                self._said.append(text[:room])
                self._recorder.add_text(text[:room])
                if len(text) > room:
                    raise BoundReached("tokens")
            case _:
                return

    async def _count(self, run: AgentRun[None, str]) -> None:
        """Record the tokens of a request; servers that do not count them are estimated by characters."""
        used = run.usage.total_tokens or len(ModelMessagesTypeAdapter.dump_json(run.all_messages())) // 4
        added, self._tokens = used - self._tokens, used
        await self._recorder.record(("usage", {"tokens": used}), requests=1, tokens=added)

    async def _end(self, status: Any, reason: str | None) -> None:
        memory, lease = self._opened.memory, self._recorder.lease
        text = "".join(self._said)
        memory.history = _write_history(self._history)
        keyring = self._recorder.keyring

        async def write(connection: Connection) -> None:
            await conversations.set_title(
                connection, keyring, lease.account_id, lease.conversation_id, memory
            )
            await messages.end(connection, lease, status, reason)

        lines = cite_lines(text, memory.results)
        await self._recorder.record(("answer", {"text": text, "lines": lines}), write=write)


def _name_model_error(error: Exception) -> str:
    if isinstance(error, ModelHTTPError) and error.status_code in (401, 403):
        return "model_refused_key"
    if isinstance(error, ModelHTTPError):
        return "model_busy" if error.status_code == 429 else "model_failed"
    return "model_unreachable"


def _read_history(stored: list[Any], most: int) -> list[ModelMessage]:
    """Return the earlier messages, from the first question on after which they are small enough."""
    history = list(ModelMessagesTypeAdapter.validate_python(stored))
    while history and len(ModelMessagesTypeAdapter.dump_json(history)) > most:
        later = [place for place, one in enumerate(history) if place and _asks(one)]
        history = history[later[0] :] if later else []
    return history


def _write_history(history: Sequence[ModelMessage]) -> list[Any]:
    """Return the messages as JSON, without calls at the end that were not made."""
    last = history[-1] if history else None
    if isinstance(last, ModelResponse) and any(isinstance(part, ToolCallPart) for part in last.parts):
        history = _drop_last_response(history)
    return ModelMessagesTypeAdapter.dump_python(list(history), mode="json")


def _drop_last_response(history: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    return history[:-1] if history and isinstance(history[-1], ModelResponse) else history


def _asks(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(
        isinstance(part, UserPromptPart) for part in message.parts
    )
