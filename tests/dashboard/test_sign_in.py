"""A browser signs in by password or by a link; its cookie is good from our own pages alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

import httpx
import pytest

from database import Database
from models.accounts import sign_in_links
from settings import Rate, Settings
from tests.api_server import PASSWORD, Api, Person, running

pytestmark = pytest.mark.usefixtures("quick_passwords")
OURS = {"sec-fetch-site": "same-origin"}
SECURE = "__Host-vedette"


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with running(settings, limit_login=Rate(10_000, 60)) as api:
        yield api


async def sign_in(api: Api, email: str, password: str = PASSWORD, **fields: str) -> httpx.Response:
    form = {"email": email, "password": password, **fields}
    return await api.http.post("/app/session", data=form, headers=OURS)


async def cookie_of(api: Api, person: Person) -> dict[str, str]:
    """The headers with which a browser that has signed in sends requests from our pages."""
    answer = await sign_in(api, person.account.email)
    assert answer.status_code == 303, answer.text
    set_cookie = answer.headers["set-cookie"]
    api.http.cookies.clear()
    return {**OURS, "cookie": set_cookie.partition(";")[0]}


async def test_a_browser_signs_in_by_password_and_is_led_to_the_page_it_asked_for(
    api: Api, person: Person
) -> None:
    answer = await sign_in(api, person.account.email, next="/app/runs?status=failed")
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/runs?status=failed")
    set_cookie = answer.headers["set-cookie"].lower()
    assert set_cookie.startswith(f"{SECURE.lower()}=")
    for part in ("httponly", "samesite=strict", "secure", "path=/"):
        assert part in set_cookie
    assert "domain" not in set_cookie
    api.http.cookies.clear()
    cookie = {**OURS, "cookie": answer.headers["set-cookie"].partition(";")[0]}
    me = await api.http.get("/api/auth/me", headers=cookie)
    assert me.json()["user"]["email"] == person.account.email
    assert me.json()["credential"]["kind"] == "session"


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/app", "//evil.example", "/app//evil.example", "/api/keys", "javascript:alert(1)",
     "/app/\r\nx: y", "/application", ""],
)  # fmt: skip
async def test_signing_in_leads_nowhere_but_to_the_dashboard(api: Api, person: Person, target: str) -> None:
    answer = await sign_in(api, person.account.email, next=target)
    api.http.cookies.clear()
    assert answer.headers["location"] == "/app"


async def test_a_wrong_password_shows_the_form_again_with_the_reason(api: Api, person: Person) -> None:
    answer = await sign_in(api, person.account.email, "another password")
    assert answer.status_code == 401
    assert "E-mail or password is not right." in answer.text
    assert f'value="{person.account.email}"' in answer.text
    assert "another password" not in answer.text and "set-cookie" not in answer.headers


async def test_login_over_the_api_sets_no_cookie(api: Api, person: Person) -> None:
    body = {"email": person.account.email, "password": PASSWORD}
    answer = await api.http.post("/api/auth/login", json=body)
    assert answer.status_code == 200 and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),  # another port of this machine
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "{url}"}, False),
        ({"origin": "{url}"}, True),  # plain http in a network has no Sec-Fetch-Site
        ({"origin": "{url}/"}, False),
        ({"origin": "https://{host}"}, False),
        ({"origin": "http://127.0.0.1"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://evil.example", "x-forwarded-host": "{host}"}, False),
        ({"referer": "{url}/app"}, False),
        ({}, False),
    ],
)
async def test_a_change_by_cookie_passes_from_our_own_pages_alone(
    api: Api, settings: Settings, person: Person, headers: dict[str, str], passes: bool
) -> None:
    cookie = (await cookie_of(api, person))["cookie"]
    address = api.services.settings.address
    sent = {name: text.format(url=address, host=address.partition("//")[2]) for name, text in headers.items()}
    for path, body in (("/api/lists", {"name": "A"}), ("/app/session/proof", {"password": PASSWORD})):
        answer = await api.http.post(path, json=body, headers={**sent, "cookie": cookie})
        if passes:
            assert answer.status_code in (201, 204), answer.text
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "cross_site_request")


async def test_a_refusal_without_the_browsers_word_names_the_setting_to_mend(
    api: Api, person: Person
) -> None:
    cookie = (await cookie_of(api, person))["cookie"]
    answer = await api.http.post("/api/lists", json={"name": "A"}, headers={"cookie": cookie})
    assert "VEDETTE_PUBLIC_URL" in answer.json()["detail"]


@pytest.mark.parametrize(("site", "status"), [
    ("same-origin", 200), ("none", 200), (None, 200), ("same-site", 403), ("cross-site", 403),
])  # fmt: skip
async def test_reading_by_cookie_is_refused_to_other_sites_too(
    api: Api, person: Person, site: str | None, status: int
) -> None:
    cookie = (await cookie_of(api, person))["cookie"]
    headers = {"cookie": cookie} | ({"sec-fetch-site": site} if site else {})
    assert (await api.http.get("/api/lists", headers=headers)).status_code == status


async def test_another_sites_form_signs_nobody_in(api: Api, person: Person) -> None:
    form = {"email": person.account.email, "password": PASSWORD}
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null"},
        {},
    ):
        answer = await api.http.post("/app/session", data=form, headers=headers)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers, headers


async def test_a_cookie_beside_another_credential_is_refused(api: Api, person: Person) -> None:
    cookie = await cookie_of(api, person)
    for header in ({"authorization": f"Bearer {person.token}"}, {"x-api-key": person.secret}):
        answer = await api.http.get("/api/lists", headers={**cookie, **header})
        assert (answer.status_code, answer.json()["code"]) == (400, "conflicting_credentials")


async def test_a_cookie_is_no_token_and_a_token_no_cookie(api: Api, person: Person) -> None:
    value = (await cookie_of(api, person))["cookie"].partition("=")[2]
    bearer = await api.http.get("/api/lists", headers={"authorization": f"Bearer {value}"})
    cookie = await api.http.get("/api/lists", headers={**OURS, "cookie": f"{SECURE}={person.token}"})
    key = await api.http.get("/api/lists", headers={**OURS, "cookie": f"{SECURE}={person.secret}"})
    assert [one.status_code for one in (bearer, cookie, key)] == [401] * 3


async def test_cookies_of_other_services_on_this_machine_do_not_matter(api: Api, person: Person) -> None:
    ours = (await cookie_of(api, person))["cookie"]
    header = f'x={{"a": [1]}}; @y; z="; {ours}; ; {SECURE}x=1'
    assert (await api.http.get("/api/lists", headers={**OURS, "cookie": header})).status_code == 200


@pytest.mark.parametrize("path", ["/api/agent/ip", "/mcp"])
async def test_a_cookie_is_not_good_where_sessions_are_not(api: Api, person: Person, path: str) -> None:
    cookie = await cookie_of(api, person)
    answer = await api.http.post(path, json={"ip": "8.8.8.8"}, headers=cookie)
    assert answer.status_code == 403


async def test_signing_out_ends_the_session_and_takes_the_cookie_away(api: Api, person: Person) -> None:
    cookie = await cookie_of(api, person)
    answer = await api.http.delete("/app/session", headers=cookie)
    assert answer.status_code == 204
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert (await api.http.get("/api/lists", headers=cookie)).status_code == 401


async def test_keys_and_secrets_want_a_password_of_the_last_minutes(
    api: Api, person: Person, database: Database
) -> None:
    cookie = await cookie_of(api, person)
    key = {"name": "made in a browser"}
    assert (await api.http.post("/api/keys", json=key, headers=cookie)).status_code == 201
    await age_proofs(database, api)
    for method, path, body in (
        ("POST", "/api/keys", key),
        ("DELETE", f"/api/keys/{person.account.id}", None),
        ("POST", "/api/workflows/secrets", {"name": "TOKEN", "value": "x"}),
        ("DELETE", "/api/workflows/secrets/TOKEN", None),
    ):
        refused = await api.http.request(method, path, json=body, headers=cookie)
        assert (refused.status_code, refused.json()["code"]) == (403, "password_required"), path
    wrong = await api.http.post("/app/session/proof", json={"password": "wrong"}, headers=cookie)
    assert (wrong.status_code, wrong.json()["code"]) == (403, "wrong_password")
    right = await api.http.post("/app/session/proof", json={"password": PASSWORD}, headers=cookie)
    assert right.status_code == 204
    assert (await api.http.post("/api/keys", json=key, headers=cookie)).status_code == 201


async def age_proofs(database: Database, api: Api) -> None:
    async with database.connection() as connection:
        await connection.execute("update sessions set proven_at = proven_at - interval '301 seconds'")
        cursor = await connection.execute("select id::text from sessions")
        for row in await cursor.fetchall():
            api.services.credentials.forget(row["id"])


async def test_sessions_are_listed_and_ended_at_once(api: Api, person: Person) -> None:
    first, second = await cookie_of(api, person), await cookie_of(api, person)
    listed = (await api.http.get("/api/auth/sessions", headers=first)).json()["sessions"]
    kinds = [one["kind"] for one in listed]
    assert kinds.count("browser") == 2 and kinds.count("token") == 1
    (current,) = [one for one in listed if one["current"]]
    other = next(one for one in listed if one["kind"] == "browser" and not one["current"])
    assert current["user_agent"].startswith("python-httpx")
    ended = await api.http.delete(f"/api/auth/sessions/{other['id']}", headers=first)
    assert ended.status_code == 204
    assert (await api.http.get("/api/lists", headers=second)).status_code == 401
    again = await api.http.delete(f"/api/auth/sessions/{other['id']}", headers=first)
    assert again.status_code == 404
    assert (await api.http.delete("/api/auth/sessions", headers=first)).status_code == 204
    assert (await person.session.get("/api/lists")).status_code == 401
    assert (await api.http.get("/api/lists", headers=first)).status_code == 200


async def test_nobody_ends_the_session_of_another_account(api: Api, person: Person) -> None:
    other = await api.person()
    cookie = await cookie_of(api, person)
    (session,) = (await other.session.get("/api/auth/sessions")).json()["sessions"]
    answer = await api.http.delete(f"/api/auth/sessions/{session['id']}", headers=cookie)
    assert answer.status_code == 404
    assert (await other.session.get("/api/lists")).status_code == 200


async def make_link(database: Database, person: Person) -> str:
    async with database.transaction() as connection:
        return await sign_in_links.make(connection, person.account.id)


async def test_a_link_signs_in_once_by_its_button_and_not_by_a_preview(
    api: Api, person: Person, database: Database
) -> None:
    token = await make_link(database, person)
    for _ in range(3):
        page = await api.http.get(f"/app/sign-in/{token}")
        assert page.status_code == 200 and token in page.text
        assert "script" not in page.text and page.headers["cache-control"] == "no-store"
    posts = [api.http.post("/app/session", data={"link": token}, headers=OURS) for _ in range(5)]
    answers = await asyncio.gather(*posts)
    api.http.cookies.clear()
    assert sorted(answer.status_code for answer in answers) == [303, 403, 403, 403, 403]


@pytest.mark.parametrize("token", ["x", "%00", "A" * 54, "ä" * 54, "../../x"])
async def test_a_link_that_is_none_is_refused_with_a_page(api: Api, token: str) -> None:
    answer = await api.http.post("/app/session", data={"link": token}, headers=OURS)
    assert answer.status_code == 403 and "used before, or its minute is over" in answer.text


async def test_a_link_is_over_after_its_minute(api: Api, person: Person, database: Database) -> None:
    token = await make_link(database, person)
    async with database.connection() as connection:
        await connection.execute("update sign_in_links set expires_at = now()")
    answer = await api.http.post("/app/session", data={"link": token}, headers=OURS)
    assert answer.status_code == 403


async def test_on_plain_http_in_a_network_the_cookie_goes_without_secure_and_the_page_says_so(
    settings: Settings,
) -> None:
    lan = "http://192.0.2.7:8000"
    async with running(settings, public_url=lan, limit_login=Rate(10_000, 60)) as api:
        person = await api.person()
        host = {"host": "192.0.2.7:8000"}
        page = await api.http.get("/app/sign-in", headers=host)
        assert "plain http" in page.text
        form = {"email": person.account.email, "password": PASSWORD}
        answer = await api.http.post("/app/session", data=form, headers={**host, "origin": lan})
        assert answer.headers["set-cookie"].startswith("vedette=")
        assert "secure" not in answer.headers["set-cookie"].lower()
        local = await api.http.get("/app/sign-in")
        assert "plain http" not in local.text


async def test_the_root_leads_a_browser_to_the_dashboard_and_tells_others_the_rest(api: Api) -> None:
    browser = await api.http.get("/", headers={"accept": "text/html,*/*"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/app")
    assert (await api.http.get("/")).json()["name"] == "vedette"


async def test_the_shell_and_its_files_are_public_and_may_load_nothing_from_elsewhere(api: Api) -> None:
    shell = await api.http.get("/app/runs/anything")
    assert shell.status_code == 200
    policy = shell.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "trusted-types 'none'" in policy and "unsafe" not in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', shell.text)
    assert named and all(name.startswith(("/app/assets/", "data:")) for name in named)
    for name in named:
        if name.startswith("/app"):
            file = await api.http.get(name)
            assert file.status_code == 200 and file.headers["content-security-policy"] == policy


@pytest.mark.parametrize(
    "name", ["no-such.js", "%2e%2e/app.py", "__init__.py", "vendor/package.json", "a/b/c.js", ""]
)
async def test_what_is_no_file_of_the_dashboard_is_not_found(api: Api, name: str) -> None:
    assert (await api.http.get(f"/app/assets/{name}")).status_code == 404
