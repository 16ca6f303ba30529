"""The choice of a representation by `Accept`."""

from __future__ import annotations

import pytest
from fastapi import Request

from api.http.accept import choose_media_type

JSON, HTML, MARKDOWN = "application/json", "text/html", "text/markdown"
ACCEPTED = {
    "*/*": HTML,
    "": HTML,
    "image/png": HTML,
    "text/html,application/xhtml+xml,*/*;q=0.8": HTML,
    JSON: JSON,
    "application/json;q=0.5, text/markdown": MARKDOWN,
    "text/html;q=0.1, application/json;q=0.2": JSON,
    "text/html;q=0, */*": MARKDOWN,
    "text/*": HTML,
    "text/*;q=0.5, application/*": JSON,
    "application/json, text/html": JSON,
    "Application/JSON; charset=utf-8": JSON,
    "text/html;q=high, application/json;q=0.001": JSON,
    ", ,application/json": JSON,
    "text/html;q=0": HTML,
}


@pytest.mark.parametrize("accept", ACCEPTED)
def test_the_preferred_known_type_is_chosen(accept: str) -> None:
    request = Request({"type": "http", "headers": [(b"accept", accept.encode())]})
    assert choose_media_type(request, HTML, MARKDOWN, JSON) == ACCEPTED[accept]


def test_several_headers_count_as_one() -> None:
    headers = [(b"accept", b"text/html;q=0.2"), (b"accept", b"application/json")]
    assert choose_media_type(Request({"type": "http", "headers": headers}), HTML, JSON) == JSON
