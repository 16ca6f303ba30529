"""`vedette config`."""

from __future__ import annotations

from cli.connecting import read_settings
from cli.printing import Json, print_data


def config(as_json: Json = False) -> None:
    """Print the settings in force, secrets masked, and where each comes from."""
    from services.operator.configuration import effective

    rows = effective(read_settings())
    width = max(len(row.name) for row in rows)
    lines = [f"{row.name:<{width}}  {row.value or '–'}  ({row.source})" for row in rows]
    print_data(
        {row.name: {"value": row.value, "source": row.source} for row in rows}, "\n".join(lines), as_json
    )
