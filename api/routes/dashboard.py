"""The dashboard: its files, and signing a browser in and out.

The files are public and hold no data: what they show they ask of the API, with the session's cookie.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field

from api import logins
from api.auth import cookies
from api.context import context_of
from api.deps import Services, ServicesDep, actor, caller_of
from api.http import limits
from api.http.errors import status_of
from api.http.json_body import StrictRequest
from api.http.pages import readable
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.pages import sign_in_pages
from api.problems import Problem
from api.routes.auth import Password, SessionCaller
from database import Connection
from models.accounts import known_addresses, sessions, sign_in_links
from models.accounts.sessions import Cookie
from models.errors import DomainError, Forbidden, NotFound, RateLimited

router = APIRouter(prefix="/app", include_in_schema=False, route_class=StrictRoute)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_ASSET = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)?\.(js|css|svg)")
_TARGET = re.compile(r"/app(/[A-Za-z0-9/_-]*)?(\?[A-Za-z0-9=&%._:+-]*)?")
_FORM = "application/x-www-form-urlencoded"


class Proof(Body):
    """The password of the session's account."""

    password: Password = Field(description="The account's password.")


@cache
def _read_file(name: str) -> bytes:
    return files("web").joinpath(*name.split("/")).read_bytes()


@router.get("/assets/{name:path}", response_class=Response)
async def get_asset(name: str, request: Request) -> Response:
    """Get a file of the dashboard."""
    try:
        if not _ASSET.fullmatch(name):
            raise NotFound("file")
        content = _read_file(name)
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound("file") from None
    return readable(request, content, _TYPES[name[name.rindex(".") :]], _HEADERS)


@router.get("/sign-in", response_class=HTMLResponse)
async def get_sign_in_page(request: Request, services: ServicesDep, next: str = "") -> Response:
    """Show the form for e-mail and password."""
    secure = cookies.is_kept_secure(request, services.settings.address)
    page = sign_in_pages.sign_in_page(target=_safe_target(next), is_secure=secure)
    return HTMLResponse(page, headers=sign_in_pages.HEADERS)


@router.get("/sign-in/{token}", response_class=HTMLResponse)
async def get_link_page(token: str, request: Request, services: ServicesDep) -> Response:
    """Show the button of a link that signs in once; viewing it changes nothing."""
    secure = cookies.is_kept_secure(request, services.settings.address)
    return HTMLResponse(sign_in_pages.link_page(token, is_secure=secure), headers=sign_in_pages.HEADERS)


@router.get("/session")
async def get_session(request: Request, services: ServicesDep) -> dict[str, bool]:
    """Get whether the browser is signed in; without an error, which browsers would print."""
    try:
        await caller_of(request)
    except (DomainError, Problem):
        return {"signed_in": False}
    return {"signed_in": True}


@router.post("/session", response_class=Response)
async def sign_in(request: Request, services: ServicesDep) -> Response:
    """Sign a browser in, by e-mail and password or by a link, and lead to the page that was asked for."""
    assert isinstance(request, StrictRequest)
    address = services.settings.address
    secure = cookies.is_kept_secure(request, address)
    form = await _read_form(request)
    try:
        cookies.refuse_foreign(request, address)
        cookie = await _begin(request, services, form)
    except Problem as problem:
        return _page_answer(sign_in_pages.refused_page(str(problem.detail)), problem.status_code)
    except DomainError as error:
        if "link" in form:
            return _page_answer(sign_in_pages.refused_page(error.message), status_of(error))
        page = sign_in_pages.sign_in_page(
            problem=error.message, email=form.get("email", ""), target=_safe_target(form.get("next", "")),
            is_secure=secure,
        )  # fmt: skip
        refused = _page_answer(page, status_of(error))
        if isinstance(error, RateLimited):
            refused.headers["Retry-After"] = str(error.retry_after)
        return refused
    response = Response(status_code=303, headers={"Location": _safe_target(form.get("next", ""))})
    cookies.set_cookie(response, cookie, secure=secure)
    return response


@router.post("/session/proof", status_code=204)
async def prove(body: Proof, request: Request, caller: SessionCaller, services: ServicesDep) -> None:
    """Give the password again: for some minutes the session may change keys and secrets."""
    if caller.proven_until is None:
        raise Forbidden("session_required", "This is for the session of a browser.")
    await logins.check_password(services, request, caller, body.password)
    async with services.database.transaction() as connection:
        await sessions.prove(connection, caller.credential_id)
    services.credentials.forget(str(caller.credential_id))


@router.delete("/session", status_code=204)
async def sign_out(request: Request, caller: SessionCaller, services: ServicesDep) -> Response:
    """End the browser's session, and have it forget our pages."""
    async with services.database.transaction() as connection:
        await sessions.end(connection, actor(request, caller), caller.credential_id)
    services.credentials.forget(str(caller.credential_id))
    response = Response(status_code=204)
    cookies.delete_cookie(response, services.settings.address)
    return response


@router.get("", response_class=Response)
@router.get("/{page:path}", response_class=Response)
async def get_shell(request: Request, page: str = "") -> Response:
    """Get the shell that all pages have; its script shows the page that the address names."""
    return readable(request, _read_file("index.html"), "text/html; charset=utf-8", _HEADERS)


async def _begin(request: Request, services: Services, form: dict[str, str]) -> Cookie:
    """Begin the session that a form asks for.

    Raises:
        DomainError: e-mail, password or link are not good, or were wrong too often.
    """
    client = context_of(request.scope).client
    if link := form.get("link"):
        await limits.check(services, "login", limits.network_of(client), request=request)
        async with services.database.transaction() as connection:
            account_id = await sign_in_links.use(connection, link)
            if account_id is not None:
                return await _start_session(request, services, connection, account_id)
        raise Forbidden("invalid_credentials", "This link was used before, or its minute is over.")
    account = await logins.check_login(services, request, form.get("email", ""), form.get("password", ""))
    async with services.database.transaction() as connection:
        return await _start_session(request, services, connection, account.id)


async def _start_session(
    request: Request, services: Services, connection: Connection, account_id: UUID
) -> Cookie:
    client = context_of(request.scope).client
    await known_addresses.remember(connection, account_id, limits.network_of(client))
    return await sessions.begin_in_browser(
        connection, account_id, services.settings.session_hours, ip=client,
        user_agent=request.headers.get("user-agent", ""),
    )  # fmt: skip


async def _read_form(request: StrictRequest) -> dict[str, str]:
    if request.media_type != _FORM:
        raise Problem(415, "unsupported_media_type", f"Send the form as {_FORM}.")
    try:
        fields = parse_qs((await request.raw()).decode(), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # not UTF-8, or too many fields
        raise Problem(400, "invalid_request", "This is not what the form sends.") from None
    return {name: values[-1] for name, values in fields.items()}


def _safe_target(target: str) -> str:
    """Return the page to go on to: one of the dashboard, whatever a link says."""
    return target if _TARGET.fullmatch(target) and "//" not in target else "/app"


def _page_answer(page: str, status: int) -> Response:
    return HTMLResponse(page, status, headers=sign_in_pages.HEADERS)
