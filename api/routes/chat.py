"""The assistant: conversations, messages and their answers, approvals, and the consent of an account."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse

from api.deps import Caller, Id, ServicesDep, actor, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.schemas.chat_bodies import (
    ApprovalAnswer,
    ApprovalDecision,
    ChatState,
    ConsentBody,
    Conversation,
    Conversations,
    NewConversation,
    NewMessage,
)
from api.streams import live_events
from api.streams.chat_events import has_ended, stream
from assistant.assistant import HOW_TO_SET_UP, OpenObject
from models.accounts.keys import DEFAULT_SCOPES
from models.chat import approvals, consents, conversations, messages
from models.chat.conversations import ConversationView
from models.chat.messages import CHANNEL, MessageView
from models.errors import Conflict, FieldError, Forbidden, Invalid

router = APIRouter(prefix="/api/chat", tags=["chat"], route_class=StrictRoute)

_SHOWN_MESSAGES = 100


async def _check_scopes(caller: Annotated[Caller, require_scope(None)]) -> Caller:
    """Refuse a key that may not do all that a conversation can show or do."""
    if missing := DEFAULT_SCOPES - caller.scopes:
        scopes = ", ".join(sorted(missing))
        raise Forbidden("insufficient_scope", f"The assistant uses all scopes; the key lacks {scopes}.")
    return caller


Chatter = Annotated[Caller, Depends(_check_scopes)]
Owner = Annotated[Caller, require_scope("keys")]
_SCOPES = problems("insufficient_scope")


@router.get("", responses=_SCOPES)
async def get_chat(caller: Chatter, services: ServicesDep) -> ChatState:
    """Get whether the assistant can be used: a model must be set, and the account agree to its host."""
    host = services.settings.chat_host
    async with services.database.connection() as connection:
        used = await messages.get_day_use(connection, caller.account_id)
        agreed_at = await consents.find_time(connection, caller.account_id, host) if host else None
    return ChatState(
        enabled=host is not None, how=HOW_TO_SET_UP if host is None else None,
        model=services.settings.chat_model, host=host, agreed_at=agreed_at, messages_today=used.messages,
        tokens_today=used.tokens, credits_today=used.credits,
    )  # fmt: skip


@router.put("/consent", status_code=204, responses=problems("chat_off", "chat_host_changed"))
async def agree_to_chat(body: ConsentBody, request: Request, caller: Owner, services: ServicesDep) -> None:
    """Agree that targets' data go to the model's host. Without it nothing is sent there."""
    host = services.assistant.check_set_up()
    if body.host != host:
        raise Conflict("chat_host_changed", f"The model's host is {host}, not the one that you agree to.")
    async with services.database.transaction() as connection:
        await consents.agree(connection, actor(request, caller), host)


@router.delete("/consent", status_code=204)
async def withdraw_from_chat(request: Request, caller: Owner, services: ServicesDep) -> None:
    """Withdraw the consent: no further message is answered. What was sent before stays with the host."""
    async with services.database.transaction() as connection:
        await consents.withdraw(connection, actor(request, caller))


@router.post("/conversations", status_code=201, responses=_SCOPES)
async def create_conversation(
    body: NewConversation, caller: Chatter, services: ServicesDep
) -> ConversationView:
    """Begin a conversation."""
    async with services.database.transaction() as connection:
        return await conversations.create(connection, services.keyring, caller.account_id, body.credit_budget)


@router.get("/conversations", responses=_SCOPES)
async def list_conversations(
    caller: Chatter, services: ServicesDep, limit: Limit = 20, cursor: Cursor = None
) -> Conversations:
    """List the account's conversations, newest first."""
    async with services.database.connection() as connection:
        found = await conversations.list_newest(
            connection, services.keyring, caller.account_id, before=id_of(cursor), limit=limit + 1
        )
    shown = found[:limit]
    last = shown[-1].id if len(found) > limit else None
    return Conversations(conversations=shown, next_cursor=cursor_of_id(last))


@router.get("/conversations/{id}", responses=_SCOPES)
async def get_conversation(id: Id, caller: Chatter, services: ServicesDep) -> Conversation:
    """Get a conversation with its messages and answers."""
    keyring, account_id = services.keyring, caller.account_id
    async with services.database.connection() as connection:
        found = await conversations.get(connection, keyring, account_id, id)
        said = await messages.list_newest(connection, keyring, account_id, id, _SHOWN_MESSAGES)
    return Conversation(**found.model_dump(), messages=said)


@router.delete("/conversations/{id}", status_code=204, responses=_SCOPES)
async def delete_conversation(id: Id, caller: Chatter, services: ServicesDep) -> None:
    """Delete a conversation with all that was said; an answer in progress ends."""
    async with services.database.transaction() as connection:
        await conversations.delete(connection, caller.account_id, id)


@router.post(
    "/conversations/{id}/messages",
    status_code=202,
    responses=problems("insufficient_scope", "chat_off", "chat_not_agreed", "chat_busy", "rate_limited"),
)
async def send_message(
    id: Id, body: NewMessage, request: Request, caller: Chatter, services: ServicesDep
) -> MessageView:
    """Send a message. Its answer is made in the background, whether or not somebody reads its events."""
    about = body.about and OpenObject(body.about.kind, body.about.id)
    message_id = await services.assistant.begin(
        caller.account_id, id, body.text, about, services.chat_tools(request, caller)
    )
    async with services.database.connection() as connection:
        return await messages.get(connection, services.keyring, caller.account_id, id, message_id)


@router.get(
    "/conversations/{id}/messages/{message_id}/events",
    response_class=StreamingResponse,
    responses=live_events.RESPONSES | _SCOPES,
)
async def get_message_events(
    id: Id,
    message_id: Id,
    request: Request,
    caller: Chatter,
    services: ServicesDep,
    last_event_id: live_events.LastEventId = None,
) -> Response:
    """Get an answer as server-sent events, live or later, until its end.

    `text` is a piece of the answer, `tool` a call and `result` its end; `approval` is a card that waits for
    a decision and `decision` what became of it; `usage` counts tokens; `answer` has the whole answer, by line
    with its citations; `end` comes last, with the message. A client that reconnects with `Last-Event-ID` gets
    only what is new.
    """
    account_id = caller.account_id
    async with services.database.connection() as connection:
        view = await messages.get(connection, services.keyring, account_id, id, message_id)
    ids = (id, message_id)
    return live_events.answer_stream(
        services,
        request,
        account_id,
        last_event_id,
        lambda credential: stream(services, credential, account_id, ids, last_event_id),
        ended=has_ended(view),
    )


@router.post("/conversations/{id}/messages/{message_id}/cancel", responses=_SCOPES)
async def cancel_message(id: Id, message_id: Id, caller: Chatter, services: ServicesDep) -> MessageView:
    """End an answer now. What it has done stays; one that has ended stays as it is."""
    await services.assistant.cancel(caller.account_id, id, message_id)
    async with services.database.connection() as connection:
        return await messages.get(connection, services.keyring, caller.account_id, id, message_id)


@router.post(
    "/conversations/{id}/approvals/{approval_id}",
    responses=problems("insufficient_scope", "approval_over"),
)
async def decide_on_approval(
    id: Id,
    approval_id: Id,
    body: ApprovalDecision,
    request: Request,
    caller: Chatter,
    services: ServicesDep,
) -> ApprovalAnswer:
    """Decide on a call that waits: make it as the card shows it, make it with other arguments, or deny it.

    A decision is for one call with these very arguments, once, within ten minutes.
    """
    if body.arguments is not None and body.decision == "deny":
        message = "A denied call is not made: leave its arguments out."
        raise Invalid([FieldError("/arguments", "not_allowed", message)])
    async with services.database.transaction() as connection:
        found = await approvals.find_open(connection, caller.account_id, id, approval_id, body.arguments_hash)
        if body.arguments is not None:
            services.chat_tools(request, caller).check_arguments(found.tool, body.arguments)
        await approvals.decide(
            connection, services.keyring, actor(request, caller), approval_id, body.decision, body.arguments
        )
    services.notifier.notify(CHANNEL, str(found.message_id))
    return ApprovalAnswer(id=approval_id, decision=body.decision, edited=body.arguments is not None)
