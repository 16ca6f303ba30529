"""An account that has what templates need, a worker, and a server in place of Slack and the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import ProviderSettings, Settings
from temporal.client import connect
from tests.api_server import Api, Person, running
from tests.automations import sources
from tests.automations.engine import Endpoint, endpoint, working
from tests.company.fixture_servers import serving
from tests.datasets import write_small_datasets
from tests.templates.copies import secrets_of

providers = sources.providers
ENDS = (datetime.now(UTC) + timedelta(days=10)).date().isoformat()


@pytest.fixture(scope="module")
async def more_providers() -> AsyncGenerator[dict[str, ProviderSettings]]:
    """A registry by which example.com ends in ten days, and sources that know Example Bank."""
    async with serving("domain") as domains, serving("websearch") as pages, serving("company") as firms:
        [exchange] = domains.say("rdapdomain", "ok")
        exchange["query"] = {}
        for event in exchange["body"]["events"]:
            event["eventDate"] = f"{ENDS}T04:00:00Z"
        pages.say("searxng", "ok")[0]["query"]["q"] = "Example Bank"
        firms.exchanges["wikidata"] = [*firms.say("wikidata", "by_domain"), *firms.say("wikidata", "ok")]
        served = domains.providers | pages.providers | firms.providers
        yield {name: served[name] for name in ("rdapdomain", "searxng", "wikidata")}


@pytest.fixture(scope="module")
def settings_of_both(
    live_settings: Settings,
    providers: dict[str, ProviderSettings],
    more_providers: dict[str, ProviderSettings],
) -> Settings:
    """Settings of the API and the worker: sources on loopback, small lookup data."""
    write_small_datasets(live_settings.data)
    return live_settings.model_copy(
        update={
            "providers": providers | more_providers,
            "allow_private_networks": (ip_network("127.0.0.1/32"),),
        }
    )


@pytest.fixture(scope="module")
async def worker(settings_of_both: Settings, database: Database, keyring: Keyring) -> AsyncGenerator[Client]:
    client = await connect(settings_of_both, keyring)
    async with working(settings_of_both, client, database, keyring):
        yield client


@pytest.fixture(scope="module")
async def api(settings_of_both: Settings) -> AsyncGenerator[Api]:
    # Dry runs fail where no source is on.
    async with running(settings_of_both, local_only=False) as served:
        yield served


@pytest.fixture(scope="module")
async def everything() -> AsyncGenerator[Endpoint]:
    """A server that stands for all that templates send something to."""
    async with endpoint() as served:
        yield served


@pytest.fixture
def receiver(everything: Endpoint) -> Endpoint:
    everything.requests.clear()
    return everything


@pytest.fixture(scope="module")
async def person(api: Api, everything: Endpoint) -> Person:
    """An account with all secrets that templates name: URLs lead to a path of that name."""
    person = await api.person(credits=1000)
    for name in secrets_of():
        value = f"{everything.url}/{name}" if name.endswith("_URL") else f"the {name}"
        stored = await person.key.post("/api/workflows/secrets", json={"name": name, "value": value})
        assert stored.status_code == 201, stored.text
    return person
