"""The pages that the `type` of every error links to."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from api.http.accept import choose_media_type
from api.http.catalogue import CATALOGUE, Entry, Place, example_of
from api.http.strict_route import StrictRoute
from models.errors import NotFound

router = APIRouter(prefix="/errors", tags=["service"], route_class=StrictRoute)

_PLACES: dict[Place, str] = {
    "answers": "The code of an answer with status {status}.",
    "fields": "In the errors of an answer with status 400, or of what validating a workflow finds.",
    "warnings": "In the warnings of a workflow, which is saved all the same.",
    "runs": "In the error of a run or of one of its steps.",
}
_HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{code}</title>
<h1>{code}</h1>
<p>{place}</p>
<h2>Cause</h2>
<p>{cause}</p>
<h2>Remedy</h2>
<p>{remedy}</p>
<p>{more}</p>
<h2>Example</h2>
<pre>{example}</pre>
</html>
"""
_MARKDOWN = """# {code}

{place}

## Cause

{cause}

## Remedy

{remedy}

{more}

## Example

```json
{example}
```
"""


class ErrorPage(BaseModel):
    """The description of an error code."""

    code: str = Field(description="The code, stable, in snake_case.")
    place: str = Field(description="Where clients meet it.")
    cause: str = Field(description="Why it comes.")
    remedy: str = Field(description="What to do about it.")
    read: str | None = Field(description="The paragraph of the documentation that says more, or null.")
    example: dict[str, Any] = Field(description="The JSON in which it stands.")


# HTML comes first: clients without an Accept header get it, such as generated ones.
_CONTENT: dict[str, Any] = {
    "text/html": {"schema": {"type": "string"}},
    "text/markdown": {"schema": {"type": "string"}},
    "application/json": {"schema": ErrorPage.model_json_schema()},
}


@router.get(
    "/{code}",
    response_class=HTMLResponse,
    responses={200: {"description": "The page.", "content": _CONTENT}},
)
async def get_error_page(code: str, request: Request) -> Response:
    """Get the meaning and remedy of an error code: HTML, or Markdown or JSON by `Accept`."""
    entry = CATALOGUE.get(code)
    if entry is None:
        raise NotFound("error code")
    page = _page(entry, request.state.address)
    media_type = choose_media_type(request, "text/html", "text/markdown", "application/json")
    if media_type == "application/json":
        content = page.model_dump_json()
    elif media_type == "text/markdown":
        more = f"More: {page.read}" if page.read else ""
        content = _MARKDOWN.format(**_texts(page), more=more)
    else:
        more = f'<a href="{escape(page.read)}">More about this</a>' if page.read else ""
        shown = {name: _marked_up(text) for name, text in _texts(page).items()}
        content = _HTML.format(**shown, more=more)
    return Response(content, media_type=media_type, headers={"Vary": "Accept"})


def _page(entry: Entry, address: str) -> ErrorPage:
    place = _PLACES[entry.place].format(status=entry.status)
    return ErrorPage(
        **entry.model_dump(include={"code", "cause", "remedy"}),
        place=place,
        read=f"{address}/docs/{entry.read}" if entry.read else None,
        example=example_of(entry, address),
    )


def _texts(page: ErrorPage) -> dict[str, str]:
    return page.model_dump(exclude={"read"}) | {
        "example": orjson.dumps(page.example, option=orjson.OPT_INDENT_2).decode()
    }


def _marked_up(text: str) -> str:
    return re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
