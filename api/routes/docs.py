"""The pages about the API, from our own files: the interactive one, and the reference of every field."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.http.openapi_texts import TAGS
from api.http.pages import derived_of, readable
from api.http.strict_route import StrictRoute
from api.pages.reference_pages import START, STYLE, index_page, tag_page, try_page
from models.errors import NotFound

router = APIRouter(include_in_schema=False, route_class=StrictRoute)

_CLOSED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_READ = {"Content-Security-Policy": f"{_CLOSED}; style-src 'self'; img-src data:"}
# Swagger UI writes style attributes, and loads its icons from data: URLs. Only its own file may run.
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


@cache
def _asset(name: str) -> tuple[str, bytes]:
    """Return the media type and the content of an existing file."""
    if name in _OURS:
        media_type, text = _OURS[name]
        return media_type, text.encode()
    return _OF_PACKAGE[name], files("fastapi_offline").joinpath("static", name).read_bytes()


@router.api_route("/openapi.json", methods=["GET", "HEAD"], response_class=Response)
async def get_openapi(request: Request) -> Response:
    """Get the OpenAPI document."""
    return readable(request, await derived_of(request).get("openapi.json", orjson.dumps), "application/json")


@router.api_route("/docs", methods=["GET", "HEAD"], response_class=HTMLResponse)
async def try_api() -> Response:
    """Show every operation, for reading and trying."""
    return HTMLResponse(try_page(), headers=_TRY)


@router.get("/docs/assets/{name}", response_class=Response)
async def get_asset(name: str, request: Request) -> Response:
    """Get a file of these pages."""
    if name not in _OURS and name not in _OF_PACKAGE:
        raise NotFound("file")
    media_type, content = _asset(name)
    return readable(request, content, media_type, {"Cache-Control": "public, max-age=3600"})


@router.get("/docs/reference", response_class=HTMLResponse)
async def get_reference(request: Request) -> Response:
    """List every operation in a line."""
    return readable(request, await derived_of(request).get("reference", index_page), "text/html", _READ)


@router.get("/docs/reference/{tag}", response_class=HTMLResponse)
async def get_reference_of(tag: str, request: Request) -> Response:
    """Show the operations of a tag, with each field of their requests and answers."""
    if tag not in TAGS:
        raise NotFound("page")
    made = await derived_of(request).get(f"reference/{tag}", partial(tag_page, tag=tag))
    return readable(request, made, "text/html", _READ)
