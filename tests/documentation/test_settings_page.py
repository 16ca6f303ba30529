"""docs/settings.md lists every setting with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from settings import Rate, Settings, names
from tests.stacks import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE))
OF_CLIENTS = {"VEDETTE_URL", "VEDETTE_API_KEY"}


def shown(default: Any) -> str | None:
    """Return a default as an operator would write it; None if it is no value but a rule."""
    match default:
        case None | ():
            return None
        case bool():
            return str(int(default))
        case Rate():
            return f"{default.requests}/{default.seconds}"
        case tuple():
            return ",".join(map(str, default))
        case int() | str() | Path():
            return str(default)
        case _:
            raise AssertionError(f"how is {default!r} written?")


def test_every_setting_has_a_row_and_there_is_no_other() -> None:
    assert ROWS.keys() == names().keys() | OF_CLIENTS
    assert "`VEDETTE_PROVIDER_<NAME>_KEY`, `_BASE_URL`, `_ENABLED`, `_RATE`" in PAGE


@pytest.mark.parametrize("name", names())
def test_a_row_has_the_default_of_the_code(name: str) -> None:
    default = shown(Settings.model_fields[names()[name]].default)
    if default is None:
        assert not re.fullmatch(r"`[^`]*`", ROWS[name]), "the page shows a value where the code has a rule"
    else:
        assert ROWS[name] == f"`{default}`"
