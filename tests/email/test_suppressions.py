"""People about whom nothing is looked up, and the erasure of what is kept of them."""

from __future__ import annotations

import pytest

from database import Database
from models.accounts import suppressions
from models.errors import Invalid
from sealing import Keyring
from services.operator.administration import erase_person, suppress_person
from tests.api_server import Person
from tests.email.sources import Sources

ADA = {"email": "ada@example.com"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/agent/lookup", ADA),
        ("/api/agent/breaches", {"email": "ADA@example.com"}),
        ("/api/agent/validate", ADA),
        ("/api/agent/phone", {"phone": "+1 415 555 2671"}),
        ("/api/agent/websearch", {"query": "ada@example.com"}),
        ("/api/agent/darkweb", {"query": "+1 (415) 555-2671"}),
    ],
)
async def test_of_a_suppressed_person_nothing_is_known_and_nobody_asked(
    path: str, body: dict[str, str], person: Person, sources: Sources, database_url: str, keyring: Keyring
) -> None:
    sources.say("ok")
    for who in ("Ada@Example.com", "+1 (415) 555-2671"):
        assert (await suppress_person(database_url, keyring, who, lift=False)).changed
    response = await person.key.post(path, json=body)
    assert response.status_code == 200
    answer = response.json()
    assert answer["providers"] == []
    assert answer["credits"] == 0
    assert not sources.asked
    known = {"email", "phone", "query"} | {
        "breaches",
        "message",
        "validity",
        "checks",
        "breach",
        "registered_services",
    }
    blocks = {name: value for name, value in answer.items() if isinstance(value, str) and name not in known}
    assert blocks == {}
    breaches = answer.get("breaches")  # of a breach check a number: what those have found who were asked
    assert breaches in (None, 0) or breaches["total_breaches"] is None


async def test_what_was_kept_before_is_not_given_either(
    person: Person, sources: Sources, database_url: str, keyring: Keyring
) -> None:
    sources.say("ok")
    before = (await person.key.post("/api/agent/lookup", json=ADA)).json()
    await suppress_person(database_url, keyring, "ada@example.com", lift=False)
    during = (await person.key.post("/api/agent/lookup", json=ADA)).json()
    await suppress_person(database_url, keyring, "ada@example.com", lift=True)
    after = (await person.key.post("/api/agent/lookup", json=ADA)).json()
    assert [answer["name"] for answer in (before, during, after)] == ["Ada Lovelace", None, "Ada Lovelace"]


async def test_others_are_looked_up_as_ever(
    person: Person, sources: Sources, database_url: str, keyring: Keyring
) -> None:
    sources.say("ok")
    await suppress_person(database_url, keyring, "eve@example.com", lift=False)
    assert (await person.key.post("/api/agent/breaches", json=ADA)).json()["breaches"] == 5


async def test_the_list_names_nobody_and_outlives_a_change_of_keys(
    database: Database, sources: Sources, keyring: Keyring
) -> None:
    async with database.connection() as connection:
        assert await suppressions.add(connection, keyring, "ada@example.com")
        assert not await suppressions.add(connection, keyring, "ada@example.com")
        rows = await (await connection.execute("select identifier_hash from suppressions")).fetchall()
        assert [len(row["identifier_hash"]) for row in rows] == [32]
        old = [root.decode() for root in keyring._roots.values()]  # pyright: ignore[reportPrivateUsage]
        rotated = Keyring(["n" * 32, *old])
        assert await suppressions.contains(connection, rotated, "ada@example.com")
        assert not await suppressions.contains(connection, Keyring(["n" * 32]), "ada@example.com")


async def test_erasure_deletes_every_kept_answer_and_says_which(
    person: Person, sources: Sources, database: Database, database_url: str, keyring: Keyring
) -> None:
    sources.say("ok")
    for email in ("ada@example.com", "eve@example.com"):
        await person.key.post("/api/agent/lookup", json={"email": email})
        await person.key.post("/api/agent/breaches", json={"email": email})
        async with database.connection() as connection:
            await connection.execute(
                "truncate provider_states, source_windows, source_turns"
            )  # some may be asked once a second
    erased = await erase_person(database_url, keyring, " Ada@example.com")
    kept = ["github", "gravatar", "hudsonrock", "leakcheck", "openpgp", "xposedornot"]
    assert [one.source for one in erased] == kept
    assert await erase_person(database_url, keyring, "ada@example.com") == []
    async with database.connection() as connection:
        rows = await (
            await connection.execute("select source from lookup_answers order by source")
        ).fetchall()
    of_the_domain = ["wikidataemployer"]
    assert [row["source"] for row in rows] == sorted(kept + of_the_domain), "the other person's"


@pytest.mark.parametrize("person", ["ada", "07400 123456", ""])
async def test_a_person_is_an_address_or_a_number(person: str, database_url: str, keyring: Keyring) -> None:
    with pytest.raises(Invalid):
        await suppress_person(database_url, keyring, person, lift=False)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ada@example.com", "ada@example.com"),
        ("Ada@example.com", "ada@example.com"),
        ("+14155552671", "+14155552671"),
        ("+1 (415) 555-2671", "+14155552671"),
        ("8.8.8.8", None),
        ("example.com", None),
        ("@ada", None),
        ("mails of ada@example.com", None),
        ("Ada Lovelace", None),
    ],
)
def test_a_query_of_any_kind_may_be_a_person(text: str, found: str | None) -> None:
    assert suppressions.identifier(text) == found
