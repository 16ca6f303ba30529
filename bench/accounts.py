"""The accounts that benchmarks use: each has a number."""

from __future__ import annotations

import httpx


async def sign_in(client: httpx.AsyncClient, number: int) -> dict[str, str]:
    """Return the headers of the account with this number, which is made on first use."""
    person = {"email": f"bench{number}@example.com", "password": "correct horse battery staple"}
    answer = await client.post("/api/auth/register", json=person)
    if answer.status_code != 201:
        answer = await client.post("/api/auth/login", json=person)
    return {"Authorization": f"Bearer {answer.json()['token']}"}
