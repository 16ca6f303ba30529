"""The declaration of tools: a function with described arguments, and the schema of its answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias, cast

from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from api.http.json_body import parse_json
from api.mcp.answers import JSONObject, schema
from api.problems import Problem

Function: TypeAlias = Callable[..., Awaitable[CallToolResult]]

Key = Annotated[
    str | None,
    Field(
        description="Any text without spaces. Within a day the same call with the same key is done and"
        " paid once: so repeat a call whose answer was lost."
    ),
]
Full = Annotated[bool, Field(description="Give the whole answer, however long; else it is cut to 8 KB.")]
Limit = Annotated[int, Field(ge=1, le=100, description="How many to give at most.")]
Offset = Annotated[int, Field(ge=0, le=1_000_000, description="How many to leave out.")]
Total: JSONObject = {"type": "integer", "description": "How many there are in all."}
DELETED = schema(deleted={"type": "boolean"})
Deleted: JSONObject = {"deleted": True}
"""The answer of a tool that has deleted an object."""
MAX_WAIT_SECONDS = 120
Seconds = Annotated[
    int, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for the end; 0 answers at once.")
]


class Toolbox:
    """The tools of one noun."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []

    def tool(
        self,
        title: str,
        answers: JSONObject,
        *,
        reads: bool = False,
        destroys: bool = False,
        repeatable: bool = False,
        outside: bool = False,
    ) -> Callable[[Function], Function]:
        """Declare a function as a tool: models read its docstring, and the `Field`s of its arguments.

        Args:
            title: for people.
            answers: the JSON Schema of its answer.
            reads: whether it changes nothing.
            destroys: whether it replaces an object, or starts something irreversible.
            repeatable: whether a second call with the same arguments changes nothing further.
            outside: whether it contacts sources or other services.
        """

        def declare(function: Function) -> Function:
            made = Tool.from_function(
                function,
                title=title,
                description=inspect.cleandoc(function.__doc__ or ""),
                annotations=ToolAnnotations(
                    title=title,
                    read_only_hint=reads,
                    destructive_hint=destroys,
                    idempotent_hint=reads or repeatable,
                    open_world_hint=outside,
                ),
                structured_output=False,
            )
            made.fn_metadata = _Arguments(arg_model=made.fn_metadata.arg_model)
            made.parameters = _strict(made)
            made.fn_metadata.output_schema = answers
            self.tools.append(made)
            return function

        return declare


class _Arguments(FuncMetadata):
    """Arguments whose objects and lists some clients write as JSON in a text."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse such texts by the rules of bodies, except where a text is expected."""
        return {name: self._parse_argument(name, value) for name, value in data.items()}

    def _parse_argument(self, name: str, value: Any) -> Any:
        field = self.arg_model.model_fields.get(name)
        expected: Any = str if field is None else field.annotation
        if isinstance(value, bool) and expected in (int, float, int | None, float | None):
            # Pydantic takes true for 1. A text that is no number is refused, by the name of the argument.
            return str(value)
        if not isinstance(value, str) or expected in (str, str | None):
            return value
        try:
            parsed = parse_json(value.encode())
        except Problem:
            return value
        return parsed if isinstance(parsed, dict | list) else value


def _strict(made: Tool) -> JSONObject:
    """Refuse unknown arguments, so that a misspelt one is noticed; return the schema of the others."""
    model = made.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    strict = model.model_json_schema(by_alias=True)
    for described in (strict, *cast(dict[str, JSONObject], strict.get("properties", {})).values()):
        described.pop("title", None)
    return strict
