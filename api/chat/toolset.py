"""The tools of `/mcp` for the assistant: called in process, in the name of the person who has written.

The person's credential is checked anew before each call. A call has all scopes of the credential but `keys`,
and passes the limits, credits and audit that any request passes, as `chat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from fastapi import Request
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent
from pydantic import ValidationError

import logs
from api.auth.credentials import Caller, find_credential
from api.chat.previews import preview_call
from api.context import CALLER, SOURCE
from api.deps import services_of
from api.mcp.answers import make_result
from api.mcp.calling import Ctx, InternalClient
from api.mcp.lookups import FEW, keep_essential
from api.mcp.server import explain_refusal, tools
from assistant.tools import ToolAnswer, ToolSpec
from models.errors import FieldError, Invalid, NotFound
from providers.registry import KINDS

_log = logs.get(__name__)
_LOOKUP = "lookup_"
_KEPT = ("type", "asgi", "http_version", "scheme", "client", "server", "app", "state", "headers", "vedette")
# Their answers are ours from end to end, or say only what is wrong with the model's own arguments.
_OURS = frozenset({
    "get_credits", "list_secrets", "list_workflow_templates", "search_docs", "validate_monitor",
    "validate_workflow",
})  # fmt: skip


class ChatTools:
    """The tools, for the sender of one request."""

    def __init__(self, request: Request, caller: Caller) -> None:
        """Prepare.

        Args:
            request: the person's.
            caller: its sender.
        """
        credential = find_credential(request.scope["headers"])
        assert credential is not None, "the route has found it"
        self._credential, self._services = credential, services_of(request)
        scope = {name: request.scope[name] for name in _KEPT if name in request.scope}
        acting = replace(caller, scopes=caller.scopes - {"keys"})
        self._scope: dict[str, Any] = {
            **scope, "method": "POST", "path": "/", "query_string": b"", SOURCE: "chat", CALLER: acting,
        }  # fmt: skip

    def list_tools(self) -> Sequence[ToolSpec]:
        """Return all tools."""
        return [_describe(tool) for tool in tools()]

    async def check_session(self) -> None:
        """Check that the credential has not ended. Raises `Unauthenticated`."""
        await self._services.credentials.find(self._credential)

    def estimate_credits(self, name: str, arguments: Mapping[str, Any]) -> int | None:
        """Return the most credits that a call can cost; None if nobody knows before."""
        if not self._services.settings.charges:
            return 0
        if name.startswith(_LOOKUP):
            price, most = KINDS[name.removeprefix(_LOOKUP)].price, arguments.get("limit", FEW)
            return min(price, most) if isinstance(most, int) else price
        if name == "start_bulk_job":
            targets = arguments.get("targets")
            return len(cast(list[Any], targets)) if isinstance(targets, list) else None
        return None if _find_tool(name).annotations.open_world_hint else 0  # pyright: ignore[reportOptionalMemberAccess]

    async def preview(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a call would do, for its card."""
        return await preview_call(InternalClient(self._make_context()), name, arguments)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool. A refusal is an answer, too."""
        tool, is_lookup = _find_tool(name), name.startswith(_LOOKUP)
        given = {**arguments, **({"full": True} if is_lookup else {})}
        try:
            result: CallToolResult = await tool.run(given, self._make_context())
        except UnexpectedToolError:
            _log.exception("chat_tool_failed", tool=name)
            return ToolAnswer("internal_error: The tool has failed. Do not repeat the call.", refused=True)
        except ToolError as error:
            is_ours = isinstance(error.__cause__, ValidationError)
            return ToolAnswer(str(explain_refusal(name, error)), refused=True, ours=is_ours)
        if not is_lookup:
            return ToolAnswer(_read_text(result))
        answer = cast(dict[str, Any], result.structured_content)
        untrusted = answer.pop("untrusted", [])
        shown = make_result(keep_essential(answer), hint="name `fields`", untrusted=untrusted)
        return ToolAnswer(_read_text(shown), credits=answer.get("credits", 0), facts=_list_facts(answer))

    def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Check arguments that a person has put in.

        Raises:
            Invalid: they do not fit the tool.
        """
        try:
            _find_tool(name).fn_metadata.validate_arguments(dict(arguments))
        except ValidationError as error:
            raise Invalid(
                [
                    FieldError(
                        "/arguments" + "".join(f"/{part}" for part in one["loc"]),
                        "invalid_format",
                        one["msg"],
                    )
                    for one in error.errors(include_url=False, include_input=False)[:20]
                ]
            ) from None

    def _make_context(self) -> Ctx:
        """Return what the tools need of the SDK's context: the request, and someone to report progress to."""
        request = Request(dict(self._scope))
        context = SimpleNamespace(request_context=SimpleNamespace(request=request), report_progress=_report)
        return cast(Ctx, context)


async def _report(_progress: float, _total: float) -> None:
    """Drop the progress: the chat shows that the call goes on."""


def _describe(tool: Tool) -> ToolSpec:
    hints = tool.annotations
    assert hints is not None, "the toolbox gives each tool its hints"
    return ToolSpec(
        tool.name, tool.title or tool.name, tool.description, tool.parameters, bool(hints.read_only_hint),
        bool(hints.destructive_hint), bool(hints.open_world_hint), tool.name in _OURS,
    )  # fmt: skip


def _find_tool(name: str) -> Tool:
    for tool in tools():
        if tool.name == name:
            return tool
    raise NotFound("tool")


def _read_text(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


def _list_facts(answer: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the source of each value of a lookup's answer, and when it has answered."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    times: dict[str, str] = {one["name"]: one.get("fetched_at", now) for one in answer["providers"]}
    return {
        path: (", ".join(names), min((times.get(name, now) for name in names), default=now))
        for path, names in answer["sources"].items()
    }
