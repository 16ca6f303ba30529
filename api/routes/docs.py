"""The pages about the API, from our own files: the interactive one, and the reference of every field."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.http.json_body import StrictRoute
from api.reference_pages import START, STYLE, index_page, tag_page, try_page
from models.errors import NotFound

router = APIRouter(prefix="/docs", include_in_schema=False, route_class=StrictRoute)

_CLOSED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_READ = {"Content-Security-Policy": f"{_CLOSED}; style-src 'self'; img-src data:"}
# Swagger UI writes style attributes, and draws its icons from data: URLs. It runs no code but its file's.
_TRY = {
    "Content-Security-Policy": f"{_CLOSED}; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'"
}
_OF_PACKAGE = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
_OURS = {
    "start.js": ("text/javascript; charset=utf-8", START),
    "style.css": ("text/css; charset=utf-8", STYLE),
}


class _Asset(NamedTuple):
    content: bytes
    media_type: str
    etag: str


@cache
def _asset(name: str) -> _Asset | None:
    if name in _OURS:
        media_type, text = _OURS[name]
        content = text.encode()
    elif name in _OF_PACKAGE:
        media_type = _OF_PACKAGE[name]
        content = files("fastapi_offline").joinpath("static", name).read_bytes()
    else:
        return None
    return _Asset(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@router.get("", response_class=HTMLResponse)
async def try_api() -> Response:
    """Every operation, to be read and tried out."""
    return HTMLResponse(try_page(), headers=_TRY)


@router.get("/assets/{name}", response_class=Response)
async def get_asset(name: str, request: Request) -> Response:
    """A file of these pages."""
    found = _asset(name) if name in _OURS or name in _OF_PACKAGE else None
    if found is None:
        raise NotFound("file")
    headers = {"ETag": found.etag, "Cache-Control": "public, max-age=3600"}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


@router.get("/reference", response_class=HTMLResponse)
async def get_reference(request: Request) -> Response:
    """Every operation in a line."""
    return HTMLResponse(index_page(request.app.openapi()), headers=_READ)


@router.get("/reference/{tag}", response_class=HTMLResponse)
async def get_reference_of(tag: str, request: Request) -> Response:
    """The operations of a tag, with each field of what they take and answer."""
    page = tag_page(request.app.openapi(), tag)
    if page is None:
        raise NotFound("page")
    return HTMLResponse(page, headers=_READ)
