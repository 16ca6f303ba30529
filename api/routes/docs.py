"""The documentation for people, from our own files: the site, the interactive page, and the reference.

The site is there where `make docs` has built it. Elsewhere a page without an ending leads to its Markdown.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.http.openapi_texts import TAGS
from api.http.pages import derived_of, readable
from api.http.strict_route import StrictRoute
from api.pages.reference_pages import START, STYLE, index_page, pages_page, tag_page, try_page
from models.errors import NotFound
from services import documentation
from services.documentation_site import documentation_site

router = APIRouter(include_in_schema=False, route_class=StrictRoute)

_CLOSED = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_READ = {"Content-Security-Policy": f"{_CLOSED}; style-src 'self'; img-src data:"}
# Swagger UI writes style attributes, and loads its icons from data: URLs. Only its own file may run.
_TRY = {
    "Content-Security-Policy": f"{_CLOSED}; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'"
}
# The search runs in a worker, icons are data: URLs in style sheets, and the search field is a form.
_SITE = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; worker-src 'self'"
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


def _answer_file(request: Request, file: Path) -> Response:
    """Return a file of the site. Reading and compressing take some milliseconds: call it in a thread."""
    media_type = guess_type(file.name)[0] or "application/octet-stream"
    return readable(request, file.read_bytes(), media_type, _SITE)


@router.get("/openapi.json", response_class=Response)
async def get_openapi(request: Request) -> Response:
    """Get the OpenAPI document."""
    return readable(request, await derived_of(request).get("openapi.json", orjson.dumps), "application/json")


@router.get("/docs", response_class=Response)
async def lead_to_first_page() -> Response:
    """Lead to the first page, whose links are relative to `/docs/`."""
    return Response(status_code=307, headers={"Location": "/docs/"})


@router.get("/docs/api", response_class=HTMLResponse)
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


@router.get("/docs/{name:path}", response_class=Response)
async def get_page_or_file(name: str, request: Request) -> Response:
    """Get a file of the site; a page's name without an ending leads to the page."""
    site = documentation_site()
    if not name and not site:
        page = pages_page(documentation.pages())
        return readable(request, page, "text/html", _READ)
    if file := site.find_file(name or "index.html"):
        return await asyncio.to_thread(_answer_file, request, file)
    if page := site.find_page(name):
        return Response(status_code=307, headers={"Location": f"/docs/{page}"})
    if not site and documentation.read_page(name) is not None:
        return Response(status_code=307, headers={"Location": f"/docs/{name}.md"})
    raise NotFound("page; /docs/ lists those that there are")
