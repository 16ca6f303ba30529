"""The secrets in the requests of runs: those of their accounts, and the URLs by which runs are resumed."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

import logs
from database import Database
from execution.redaction import Redaction
from execution.versions import LoadedVersion
from execution.webhook_step import Secrets
from language.steps import WaitStep
from models.accounts import secrets
from models.runs import resume_tokens
from sealing import Keyring, UnsealError

_log = logs.get(__name__)
# Calls of a step come in groups; a changed secret is used after this time.
_SECRETS_SECONDS = 2.0
_NO_SECRETS = Secrets({}, Redaction(()))


class _CachedSecrets(NamedTuple):
    secrets: Secrets | None
    until: float


class RunSecrets:
    """The secrets of the runs of a worker."""

    def __init__(self, database: Database, keyring: Keyring, address: str) -> None:
        """Create it.

        Args:
            database: the database with the sealed secrets.
            keyring: opens them.
            address: the public address of this service, without a trailing slash.
        """
        self._database = database
        self._keyring = keyring
        self._address = address
        self._cache: dict[tuple[UUID, frozenset[str]], _CachedSecrets] = {}

    async def load(
        self, account_id: UUID, run_id: UUID, step_id: str, version: LoadedVersion
    ) -> Secrets | None:
        """Return what a webhook step of a run may send; None if a secret cannot be opened."""
        found = await self._load_values(account_id, version.templates[step_id].secrets)
        if found is None or step_id not in version.plan.resume_urls:
            return found
        return self._add_resume_urls(found, run_id, version)

    def _add_resume_urls(self, found: Secrets, run_id: UUID, version: LoadedVersion) -> Secrets:
        """Add the URLs by which the run is resumed, which are as secret as the secrets themselves."""
        urls = {
            step.id: resume_tokens.resume_url(
                self._keyring, self._address, resume_tokens.StepPosition(run_id, position)
            )
            for position, step in enumerate(version.plan.steps)
            if isinstance(step, WaitStep)
        }
        tokens = [url.rpartition("/")[2] for url in urls.values()]
        return Secrets(found.values, Redaction([*found.values.values(), *tokens]), urls)

    async def _load_values(self, account_id: UUID, names: Collection[str]) -> Secrets | None:
        if not names:
            return _NO_SECRETS
        key, now = (account_id, frozenset(names)), time.monotonic()
        cached = self._cache.get(key)
        if cached is None or cached.until < now:
            self._cache = {key: one for key, one in self._cache.items() if one.until >= now}
            opened = await self._open_values(account_id, names)
            cached = self._cache[key] = _CachedSecrets(opened, now + _SECRETS_SECONDS)
        return cached.secrets

    async def _open_values(self, account_id: UUID, names: Collection[str]) -> Secrets | None:
        try:
            async with self._database.connection() as connection:
                values = await secrets.load_values(connection, self._keyring, account_id, names)
        except UnsealError:
            _log.error("secret_not_opened", account_id=str(account_id))
            return None
        return Secrets(values, Redaction(values.values()))
