"""The tools in the form of the agent's library. Each call goes through the gate, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from assistant.gate import Gate
from assistant.tools import ToolSpec

# The tool itself checks its arguments, and answers what is wrong with them.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class GatedTools(AbstractToolset[None]):
    """Offers the tools to a model."""

    def __init__(self, specs: Sequence[ToolSpec], gate: Gate, mistakes: int) -> None:
        self._specs, self._gate, self._mistakes = specs, gate, mistakes

    @property
    def id(self) -> str:
        """The name of the toolset."""
        return "vedette"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Return the definitions that the model reads."""
        return {
            spec.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=spec.name,
                    description=spec.description,
                    parameters_json_schema=spec.parameters,
                    # Approvals are given one by one.
                    sequential=True,
                ),
                max_retries=self._mistakes,
                args_validator=_ANY_OBJECT,
            )
            for spec in self._specs
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        """Call a tool through the gate."""
        return await self._gate.call(name, tool_args, ctx.tool_call_id or name)
