"""Temporal's web pages, asked of a stack that has a server of its own elsewhere."""

from __future__ import annotations

import io

import pytest

from embedded.announcement import announce_missing_pages
from embedded.report import Report
from setting_types import TemporalPages
from settings import Settings

OWN = "127.0.0.1:7233"


@pytest.mark.parametrize(
    ("address", "pages", "is_told"),
    [(OWN, True, True), (OWN, False, False), (OWN, "http://127.0.0.1:8233", False), (None, True, False)],
)
def test_a_start_says_that_it_shows_no_pages_of_another_server(
    address: str | None, pages: TemporalPages, *, is_told: bool
) -> None:
    out = io.StringIO()
    announce_missing_pages(Report(out), Settings(temporal_address=address, temporal_ui=pages))
    assert ("VEDETTE_TEMPORAL_UI" in out.getvalue()) == is_told
