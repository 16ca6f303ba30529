"""The assistant of one API process: it begins answers, and ends them when the process stops.

The library of the model's protocol is imported with the first answer: it takes a second, and many
installations have no model.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib import import_module
from uuid import UUID

import logs
from assistant.bounds import Bounds
from assistant.recorder import Recorder
from assistant.tools import Toolset
from database import Database
from models.chat import consents, conversations, messages
from models.chat.conversations import OpenedConversation
from models.chat.messages import DayUse, Lease, LeaseLost
from models.errors import Conflict, Forbidden, RateLimited
from notifications import Notifier
from outbound.client import Outbound
from sealing import Keyring
from services.run_waiter import RunWaiter
from settings import Settings

_log = logs.get(__name__)
_TITLE = 80
_DAY_SECONDS = 86_400
HOW_TO_SET_UP = (
    "Set VEDETTE_CHAT_BASE_URL to the root of an OpenAI-compatible API, such as http://127.0.0.1:11434/v1,"
    " and VEDETTE_CHAT_MODEL to a model of it; VEDETTE_CHAT_KEY if it wants a key. Then restart the service."
)


@dataclass(frozen=True)
class OpenObject:
    """The object that the person has open beside the chat: its kind, and its id or target."""

    kind: str
    id: str


class Assistant:
    """Begins and ends answers.

    Attributes:
        bounds: of each answer.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keyring: Keyring,
        notifier: Notifier,
        outbound: Outbound,
        waiter: RunWaiter,
    ) -> None:
        self.bounds = Bounds()
        self._settings, self._database, self._keyring = settings, database, keyring
        self._notifier, self._outbound, self._waiter = notifier, outbound, waiter
        self._tasks: dict[Lease, asyncio.Task[None]] = {}

    async def begin(
        self, account_id: UUID, conversation_id: UUID, text: str, about: OpenObject | None, toolset: Toolset
    ) -> UUID:
        """Store a message, and begin its answer in the background; return the message's id.

        Raises:
            Conflict: no model is set (`chat_off`), or another message is being answered (`chat_busy`).
            Forbidden: the account has not agreed to the model's host (`chat_not_agreed`).
            RateLimited: the account has used what it may in a day.
            NotFound: there is no such conversation.
        """
        async with self._database.transaction() as connection:
            await messages.lock_account(connection, account_id)
            opened = await conversations.open_memory(connection, self._keyring, account_id, conversation_id)
            host = self.check_set_up()
            if await consents.find_time(connection, account_id, host) is None:
                message = f"Targets' data would go to {host}: agree to that first, by PUT /api/chat/consent."
                raise Forbidden("chat_not_agreed", message)
            used = await messages.get_day_use(connection, account_id)
            self._check_day(used)
            content = {"text": text, "about": None if about is None else [about.kind, about.id]}
            lease = await messages.begin(connection, self._keyring, account_id, conversation_id, content)
            if not opened.memory.title:
                opened.memory.title = text.strip().splitlines()[0][:_TITLE]
            await conversations.set_title(
                connection, self._keyring, account_id, conversation_id, opened.memory
            )
        note = f"[open: {about.kind} {about.id}]" if about else ""
        task = asyncio.create_task(self._answer(lease, opened, (text, note, used.credits), toolset))
        self._tasks[lease] = task
        task.add_done_callback(lambda _: self._tasks.pop(lease, None))
        return lease.message_id

    def check_set_up(self) -> str:
        """Return the host of the model.

        Raises:
            Conflict: no model is set (`chat_off`).
        """
        host = self._settings.chat_host
        if host is None:
            raise Conflict("chat_off", f"No model is set. {HOW_TO_SET_UP}")
        return host

    def _check_day(self, used: DayUse) -> None:
        bounds = self.bounds
        reached = [
            (used.messages >= bounds.day_messages, f"{bounds.day_messages} messages"),
            (used.tokens >= bounds.day_tokens, f"{bounds.day_tokens} tokens"),
        ]
        for is_reached, what in reached:
            if is_reached:
                raise RateLimited(_DAY_SECONDS, {}, f"The account has used {what} of the assistant in a day.")

    async def _answer(
        self, lease: Lease, opened: OpenedConversation, asked: tuple[str, str, int], toolset: Toolset
    ) -> None:
        recorder = Recorder(self._database, self._keyring, self._notifier, lease)
        try:
            async with recorder.keep_lease():
                # In a thread: it takes a second, which the event loop must not wait for.
                await asyncio.to_thread(import_module, "assistant.answering")
                from assistant.answering import Answering, AnswerResources, Question

                resources = AnswerResources(
                    self._settings, self._outbound, self.bounds, self._waiter.subscribe
                )
                await Answering(resources, recorder, toolset, opened).answer(Question(*asked))
        except LeaseLost:
            _log.info("chat_lease_lost", message_id=str(lease.message_id))
        except asyncio.CancelledError:
            await self._give_up(lease)
            raise
        except Exception:
            _log.exception("chat_answer_failed", message_id=str(lease.message_id))
            await self._give_up(lease)

    async def _give_up(self, lease: Lease) -> None:
        async with self._database.connection() as connection:
            await messages.give_up(connection, lease)
        self._notifier.notify(messages.CHANNEL, str(lease.message_id))

    async def cancel(self, account_id: UUID, conversation_id: UUID, message_id: UUID) -> None:
        """End the answer to a message now, in whichever process it is made."""
        async with self._database.connection() as connection:
            await messages.cancel(connection, account_id, conversation_id, message_id)
        for lease, task in self._tasks.items():
            if lease.message_id == message_id and lease.account_id == account_id:
                task.cancel()
        self._notifier.notify(messages.CHANNEL, str(message_id))

    async def close(self) -> None:
        """End all answers of this process; they are shown as interrupted."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
