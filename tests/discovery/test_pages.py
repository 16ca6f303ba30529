"""What newcomers and agents find: the root, `/llms.txt`, the documentation, and the well-known addresses."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from pydantic import SecretStr

from models.accounts import keys
from models.automations import definitions
from settings import Settings, StartError, load
from tests.api_server import Api, running

FOLDER = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md"))
METADATA = "/.well-known/oauth-protected-resource"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+)\)")
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


def local(api: Api, place: str) -> str:
    """The path of a place that the service names by its address, which here is another than it has."""
    return place.removeprefix(api.services.settings.address)


async def test_the_root_says_what_answers_here_and_where_to_read_on(api: Api) -> None:
    answer = await api.http.get("/")
    assert answer.headers["content-type"] == "application/json"
    index = answer.json()
    assert index["name"] == "vedette"
    assert index["api"] == f"{api.services.settings.address}/api"
    for name in ("auth", "llms", "docs", "openapi", "health"):
        assert (await api.http.get(local(api, index[name]))).status_code == 200, name


async def test_the_root_leads_to_its_documentation_by_links_too(api: Api) -> None:
    headers = (await api.http.get("/")).headers
    links = dict(re.findall(r'<([^>]+)>; rel="([^"]+)"', headers["link"]))
    assert links == {"/auth.md": "service-doc", "/openapi.json": "service-desc"}
    assert headers["vary"] == "Accept"


async def test_a_browser_is_led_to_the_dashboard_and_every_link_of_the_root_resolves(api: Api) -> None:
    answer = await api.http.get("/", headers={"Accept": "text/html,application/xhtml+xml"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/app")
    index = (await api.http.get("/")).json()
    pages = [index[name] for name in ("auth", "llms", "docs", "openapi", "health")]
    assert {(await api.http.get(local(api, page))).status_code for page in pages} == {200}


async def test_llms_txt_has_the_form_that_agents_read(api: Api) -> None:
    answer = await api.http.get("/llms.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    title, _, rest = answer.text.partition("\n\n")
    assert title == "# vedette"
    assert rest.startswith("> ")
    lists = [part.strip().splitlines() for part in re.split(r"^## .*$", rest, flags=re.MULTILINE)[1:]]
    assert all(re.match(r"- \[[^\]]+\]\(http[^)]+\)(: |$)", line) for lines in lists for line in lines)


async def test_every_link_of_llms_txt_resolves(api: Api) -> None:
    links = LINK.findall((await api.http.get("/llms.txt")).text)
    pages = {f"/docs/{name}.md" for name in PAGES}
    assert pages | {"/auth.md", "/openapi.json"} <= {local(api, link) for link in links}
    for link in links:
        assert (await api.http.get(local(api, link))).status_code == 200, link


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_of_the_documentation_comes_as_markdown_with_links_that_work(
    api: Api, name: str
) -> None:
    answer = await api.http.get(f"/docs/{name}.md")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
    text = re.sub(r"^```.*?^```$", "", answer.text, flags=re.MULTILINE | re.DOTALL)
    places = {urljoin(f"/docs/{name}.md", link).partition("#")[0] for link in LINK.findall(text)}
    for place in sorted(place for place in places if place.startswith("/")):
        assert (await api.http.get(place)).status_code == 200, place


@pytest.mark.parametrize(
    "path",
    [
        "/docs/no-such-page.md", "/docs/.md", "/docs/security.md/", "/docs/security.MD", "/docs/__init__.py",
        "/docs/../settings.md", "/docs/%2e%2e%2fREADME.md", "/docs/..%2FREADME.md", "/docs/%2e%2e/README.md",
        "/docs/..%5CREADME.md", "/docs/%2Fetc%2Fhosts.md", "/docs/security%00.md", "/docs/security.md%00.md",
        "/docs/decisions/%2e%2e%2fsecurity.md", "/docs/decisions/no-such-page.md", "/docs//etc/hosts.md",
    ],
)  # fmt: skip
async def test_what_is_no_page_is_a_404(api: Api, path: str) -> None:
    # As raw bytes: the client would tidy up the path.
    url = httpx.URL(api.url).copy_with(raw_path=path.encode())
    answer = await api.http.get(url)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_schema_that_pages_link_to_is_that_of_workflows(api: Api) -> None:
    answer = await api.http.get("/docs/workflow.schema.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == definitions.json_schema()


@pytest.mark.parametrize("path", ["/llms.txt", "/docs/security.md", "/docs/workflow.schema.json"])
async def test_who_has_a_text_already_is_told_that_it_has_not_changed(api: Api, path: str) -> None:
    first = await api.http.get(path)
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, max-age=300"
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await api.http.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert (await api.http.get(path, headers={"If-None-Match": '"other"'})).status_code == 200


@pytest.mark.parametrize(("path", "resource"), [(METADATA, ""), (f"{METADATA}/mcp", "/mcp")])
async def test_the_metadata_of_a_resource_names_it_and_no_authorization_server(
    settings: Settings, path: str, resource: str
) -> None:
    async with running(settings, public_url="https://watch.example.com/") as api:
        answer = await api.http.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "resource": f"https://watch.example.com{resource}",
        "resource_name": "vedette",
        "bearer_methods_supported": ["header"],
        "scopes_supported": sorted(keys.ALL_SCOPES),
        "resource_documentation": "https://watch.example.com/auth.md",
    }


@pytest.mark.parametrize(
    "name", ["oauth-authorization-server", "openid-configuration", "agent.json", "x", ""]
)
async def test_other_well_known_addresses_are_not_there(api: Api, name: str) -> None:
    answer = await api.http.get(f"/.well-known/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_without_a_contact_there_is_no_security_txt(api: Api) -> None:
    answer = await api.http.get("/.well-known/security.txt")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "VEDETTE_SECURITY_CONTACT" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("contact", "url", "canonical"),
    [
        ("mailto:security@example.com", "https://watch.example.com", True),
        ("https://example.com/report", "http://watch.internal", False),
        ("tel:+1-201-555-0123", "http://127.0.0.1:8000", False),
    ],
)
async def test_security_txt_says_where_weaknesses_are_reported(
    settings: Settings, contact: str, url: str, canonical: bool
) -> None:
    async with running(settings, security_contact=contact, public_url=url) as api:
        answer = await api.http.get("/.well-known/security.txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    fields = dict(line.split(": ", 1) for line in answer.text.splitlines())
    left = datetime.fromisoformat(fields.pop("Expires")) - datetime.now(UTC)
    assert timedelta(days=89) < left < timedelta(days=365)
    assert fields.pop("Canonical", None) == (f"{url}/.well-known/security.txt" if canonical else None)
    assert fields == {"Contact": contact, "Preferred-Languages": "en"}


@pytest.mark.parametrize(
    "contact", ["security@example.com", "mailto:nobody", "http://example.com", "mailto:a@b\nExpires: never"]
)
def test_a_contact_that_security_txt_may_not_have_is_refused(contact: str) -> None:
    with pytest.raises(StartError, match="VEDETTE_SECURITY_CONTACT: give mailto:"):
        load({"VEDETTE_SECURITY_CONTACT": contact})


@pytest.mark.parametrize("url", ["ftp://example.com", "example.com", "https://", "https://a@b.example"])
def test_an_address_that_clients_cannot_use_is_refused(url: str) -> None:
    with pytest.raises(StartError, match="VEDETTE_PUBLIC_URL: give the address"):
        load({"VEDETTE_PUBLIC_URL": url})


def challenge(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 401
    scheme, _, parameters = answer.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    return dict(CHALLENGE.findall(parameters))


@pytest.mark.parametrize("path", ["/api/credits", "/api/workflows", "/api/agent/lists"])
async def test_who_sends_no_credential_is_told_where_to_read_how_to_get_one(api: Api, path: str) -> None:
    answer = await api.http.get(path)
    told = challenge(answer)
    assert told.keys() == {"realm", "resource_metadata"}
    metadata = (await api.http.get(local(api, told["resource_metadata"]))).json()
    assert metadata["resource"] == api.services.settings.address
    assert (await api.http.get(local(api, metadata["resource_documentation"]))).status_code == 200
    assert "/auth.md" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer vedette_live_nonsense"},
        {"Authorization": "Bearer a.b.c"},
        {"Authorization": "Basic YTpi"},
        {"X-API-Key": f"{keys.PREFIX}{'0' * 32}"},
    ],
    ids=["key", "session", "scheme", "header of its own"],
)
async def test_who_sends_a_bad_credential_is_told_so(api: Api, headers: dict[str, str]) -> None:
    told = challenge(await api.http.get("/api/credits", headers=headers))
    assert told["error"] == "invalid_token"
    assert told["resource_metadata"].endswith(METADATA)


async def test_a_wrong_password_is_no_bad_token(api: Api) -> None:
    login = {"email": "nobody@example.com", "password": "correct horse battery"}
    assert "error" not in challenge(await api.http.post("/api/auth/login", json=login))


async def test_the_metrics_which_have_a_token_of_their_own_name_no_metadata(settings: Settings) -> None:
    async with running(settings.model_copy(update={"metrics_token": SecretStr("only-for-metrics")})) as api:
        assert challenge(await api.http.get("/metrics")).keys() == {"realm"}


async def test_all_of_it_is_served_while_the_database_is_away(settings: Settings) -> None:
    async with running(settings) as api:
        await api.services.database.close()
        paths = ("/", "/auth.md", "/llms.txt", METADATA, f"{METADATA}/mcp", "/docs/security.md")
        answers = {
            path: (await api.http.get(path)).status_code for path in (*paths, "/docs/workflow.schema.json")
        }
        assert set(answers.values()) == {200}, answers
        login = {"email": "ada@example.com", "password": "correct horse battery"}
        assert (await api.http.post("/api/auth/login", json=login)).status_code >= 500
