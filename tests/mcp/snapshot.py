"""Write the tools as they are now to `tools.json`: `python -m tests.mcp.snapshot`."""

from __future__ import annotations

import json
from pathlib import Path

from mcp.types import Tool

from api.mcp.server import tools


def written() -> str:
    """The tools as a client gets them, as JSON."""
    listed = [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.parameters,
            output_schema=tool.output_schema,
            annotations=tool.annotations,
        ).model_dump(mode="json", by_alias=True, exclude_none=True)
        for tool in tools()
    ]
    return json.dumps(listed, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("tools.json").write_text(written())
