"""Passwords: argon2id, in threads of their own.

A hash takes about 100 ms of CPU and 64 MiB, so at most two are computed at once in a process.
"""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from pwdlib import PasswordHash

MIN_LENGTH, MAX_LENGTH = 12, 1024

_hasher = PasswordHash.recommended()
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="password")


async def hash_password(password: str) -> str:
    """Return the argon2id hash to store for `password`."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, password)


async def verify(password: str, stored: str | None) -> tuple[bool, str | None]:
    """Compare `password` with a stored hash; without one, take the same time and fail.

    Returns:
        Whether it matches, and a new hash to store if the old one was made with weaker parameters.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads, _verify, password, stored)


def generate_password() -> str:
    """Return a random password of 144 bits, for people to copy."""
    return secrets.token_urlsafe(18)


def _verify(password: str, stored: str | None) -> tuple[bool, str | None]:
    fits, renewed = _hasher.verify_and_update(password, stored or _nobodys_hash())
    return (fits, renewed) if stored else (False, None)


@lru_cache(maxsize=1)
def _nobodys_hash() -> str:
    return _hasher.hash(secrets.token_urlsafe(18))
