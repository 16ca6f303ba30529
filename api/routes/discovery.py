"""The first pages for newcomers, agents and their clients: a description, the way to a key, further reading.

None of them needs a credential or the database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from api import versions
from api.deps import services_of
from api.http.accept import choose_media_type
from api.http.openapi import problems
from api.http.pages import derived_of, readable
from api.http.strict_route import StrictRoute
from api.pages.auth_md import auth_md
from api.pages.security_txt import security_txt
from models.accounts import keys
from models.automations import definitions
from models.errors import NotFound
from models.views import View
from services import documentation

router = APIRouter(tags=["discovery"], route_class=StrictRoute)

_MARKDOWN = "text/markdown"
_LINKS = '</auth.md>; rel="service-doc"; type="text/markdown", </openapi.json>; rel="service-desc"'
_EXAMPLE = "http://127.0.0.1:8000"
_LLMS = """# vedette

> Looks up IP addresses, e-mails, phones, domains and companies, watches them for changes, and runs workflows
> on what it finds. Self-hosted, with an HTTP API under {address}/api and an MCP server at {address}/mcp.
> Both need an API key: auth.md says how to get one.

## Start

- [auth.md]({address}/auth.md): get, use and revoke an API key; endpoints, prices, limits, errors; MCP
- [OpenAPI]({address}/openapi.json): every operation with its bodies, answers and errors
- [Schema of workflows]({address}/docs/workflow.schema.json): JSON Schema of what a workflow may say
- [Documentation for people]({address}/docs/): the same pages, with a search
- [API explorer]({address}/docs/api): the OpenAPI document, to be tried

## Documentation

{pages}

## Optional

{others}
"""


class Index(View):
    """The service, and its further pages."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "vedette",
                    "version": "0.1.0",
                    "api": f"{_EXAMPLE}/api",
                    "mcp": f"{_EXAMPLE}/mcp",
                    "auth": f"{_EXAMPLE}/auth.md",
                    "llms": f"{_EXAMPLE}/llms.txt",
                    "docs": f"{_EXAMPLE}/docs/",
                    "openapi": f"{_EXAMPLE}/openapi.json",
                    "health": f"{_EXAMPLE}/readyz",
                }
            ]
        }
    )

    name: str = Field(description="Always `vedette`.")
    version: str = Field(description="The version of the service.")
    api: str = Field(description="Where the paths of the API begin.")
    mcp: str = Field(description="The MCP server (Streamable HTTP).")
    auth: str = Field(description="How to get and use a credential, in Markdown.")
    llms: str = Field(description="The list of the pages of the documentation, for agents.")
    docs: str = Field(description="The documentation for people.")
    openapi: str = Field(description="The OpenAPI document.")
    health: str = Field(description="Whether every part of the service works.")


class ProtectedResource(View):
    """The protection of a resource here (RFC 9728). It names no authorization server, for there is none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "resource": f"{_EXAMPLE}/mcp",
                    "resource_name": "vedette",
                    "bearer_methods_supported": ["header"],
                    "scopes_supported": ["credits", "lookups"],
                    "resource_documentation": f"{_EXAMPLE}/auth.md",
                }
            ]
        }
    )

    resource: str = Field(description="What is protected: the service, or its MCP server.")
    resource_name: str = Field(description="Its name for people.")
    bearer_methods_supported: list[str] = Field(description="How a credential is sent: in a header.")
    scopes_supported: list[str] = Field(description="The scopes that an API key can have.")
    resource_documentation: str = Field(description="How to get a key, in Markdown.")


def _page_of(media_type: str, schema_type: str = "string") -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a page with an ETag."""
    content = {media_type: {"schema": {"type": schema_type}}}
    return {
        200: {"description": "The page.", "content": content},
        304: {"description": "It has the ETag of `If-None-Match`."},
    }


@router.get(
    "/",
    response_model=Index,
    responses={303: {"description": "To the dashboard, for clients that accept HTML."}},
)
async def get_index(request: Request) -> Response:
    """Get an overview of the service and its pages as JSON; a browser is led to the dashboard."""
    address: str = request.state.address
    index = Index(
        name="vedette",
        version=versions.PACKAGE,
        api=f"{address}/api",
        mcp=f"{address}/mcp",
        auth=f"{address}/auth.md",
        llms=f"{address}/llms.txt",
        docs=f"{address}/docs/",
        openapi=f"{address}/openapi.json",
        health=f"{address}/readyz",
    )
    headers = {"Link": _LINKS, "Vary": "Accept"}
    if choose_media_type(request, "application/json", "text/html") != "text/html":
        return Response(index.model_dump_json(), media_type="application/json", headers=headers)
    return Response(status_code=303, headers={**headers, "Location": "/app", "Cache-Control": "no-store"})


@router.get("/auth.md", response_class=Response, responses=_page_of(_MARKDOWN))
async def get_auth_md(request: Request) -> Response:
    """Get the steps to get, use and revoke a credential, with endpoints, prices and limits."""
    made = await derived_of(request).get("auth.md", partial(auth_md, services_of(request).settings))
    return readable(request, made, _MARKDOWN)


@router.get("/llms.txt", response_class=Response, responses=_page_of("text/plain"))
async def get_llms_txt(request: Request) -> Response:
    """List the pages of the documentation with their purpose, in the form of llmstxt.org."""
    address: str = request.state.address
    lines: dict[bool, list[str]] = {False: [], True: []}
    for page in documentation.pages():
        line = f"- [{page.title}]({address}/docs/{page.name}.md): {page.summary}"
        lines[documentation.is_for_builders(page.name)].append(line)
    text = _LLMS.format(address=address, pages="\n".join(lines[False]), others="\n".join(lines[True]))
    return readable(request, text, "text/plain")


@router.get("/docs/{page:path}.md", response_class=Response, responses=_page_of(_MARKDOWN))
async def get_documentation_page(page: str, request: Request) -> Response:
    """Get a page of the documentation, as `/llms.txt` lists them; links between pages work here."""
    text = documentation.read_page(page)
    if text is None:
        raise NotFound("page; /llms.txt lists those that there are")
    return readable(request, text, _MARKDOWN)


@router.get(
    "/docs/workflow.schema.json", response_class=Response, responses=_page_of("application/json", "object")
)
async def get_schema_for_editors(request: Request) -> Response:
    """Get the JSON Schema of workflows, without a credential: for editors, and links in the documentation."""
    return readable(request, _schema(), "application/json")


@router.get("/.well-known/oauth-protected-resource")
async def get_protected_resource(request: Request) -> ProtectedResource:
    """Get the protection of the API (RFC 9728): a key in a header, with no authorization server."""
    return _describe_resource(request, "")


@router.get("/.well-known/oauth-protected-resource/mcp")
async def get_protected_mcp_server(request: Request) -> ProtectedResource:
    """Get the protection of the MCP server (RFC 9728): the same keys as the API."""
    return _describe_resource(request, "/mcp")


@router.get(
    "/.well-known/security.txt",
    response_class=Response,
    responses=_page_of("text/plain") | problems("not_found"),
)
async def get_security_txt(request: Request) -> Response:
    """Get the place to report weaknesses of this installation to (RFC 9116), if its operator names one."""
    contact = services_of(request).settings.security_contact
    if contact is None:
        raise NotFound("page; the operator has named no contact (VEDETTE_SECURITY_CONTACT)")
    text = security_txt(contact, request.state.address, datetime.now(UTC).date())
    return readable(request, text, "text/plain")


@cache
def _schema() -> str:
    return orjson.dumps(definitions.json_schema(), option=orjson.OPT_INDENT_2).decode()


def _describe_resource(request: Request, path: str) -> ProtectedResource:
    address: str = request.state.address
    return ProtectedResource(
        resource=f"{address}{path}",
        resource_name="vedette",
        bearer_methods_supported=["header"],
        scopes_supported=sorted(keys.ALL_SCOPES),
        resource_documentation=f"{address}/auth.md",
    )
