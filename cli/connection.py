"""The address of the service, and the API key for it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cli.errors import failure

URL, KEY = "VEDETTE_URL", "VEDETTE_API_KEY"
NO_URL = f"{URL}: Give the root of the service, as http://127.0.0.1:8000."
# The last two are the bind addresses of a service on all interfaces; as destinations they mean this machine.
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")


@dataclass(frozen=True)
class ServiceConnection:
    """The address of the service, and the key for it.

    Attributes:
        url: its root.
        key: of the account.
        key_from: the origin of the key, for people.
    """

    url: str
    key: str
    key_from: str

    @property
    def here(self) -> bool:
        """Return whether the service is on this machine."""
        return urlsplit(self.url).hostname in _LOOPBACK


def find_connection() -> ServiceConnection:
    """Find the service and a key: in the environment, else of the stack running on the data folder.

    The key of that stack is sent nowhere else.

    Raises:
        StartError: there is none.
    """
    url, key = os.environ.get(URL, "").rstrip("/"), _own_key()
    if url:
        _check_url(url)
    if key and url:
        return ServiceConnection(url, key, KEY)
    from embedded import folder
    from settings import load

    data = load().data.expanduser().absolute()
    running = folder.running(data)
    if running is None and not url:
        raise failure(
            f"{URL} is not set, and no stack runs over the data folder {data}. Set {URL} and {KEY}, name the "
            "folder of a stack that runs with VEDETTE_DATA, or start one with `vedette up`.",
            "SETTING",
        )
    url = url or (running.url if running else "")
    if key:
        return ServiceConnection(url, key, KEY)
    if running is None or url != running.url.rstrip("/"):
        raise failure(
            f"{KEY} is not set, and no stack of the data folder {data} is at {url}. "
            "`vedette keys create --account <email>` makes a key, where the service runs.",
            "SETTING",
        )
    file = data / "first-account.json"
    return ServiceConnection(url, _first_key(file), str(file))


def _own_key() -> str:
    """Return the key in the environment, given directly or in a file."""
    key, file = os.environ.get(KEY, ""), os.environ.get(f"{KEY}_FILE")
    try:
        key = Path(file).read_text("utf-8") if file and not key else key
    except (OSError, UnicodeDecodeError):
        raise failure(f"{KEY}_FILE: {file} cannot be read.", "SETTING") from None
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise failure(f"{KEY}: This is no key.", "SETTING")
    return key


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the lookup of its address does
    except ValueError:
        fits = False
    else:
        fits = fits and url.isprintable() and not parts.query and not parts.fragment and not parts.username
    if not fits:
        raise failure(NO_URL, "SETTING")


def _first_key(file: Path) -> str:
    try:
        return str(json.loads(file.read_bytes())["api_key"])
    except (OSError, ValueError, KeyError, TypeError):
        raise failure(
            f"{KEY} is not set, and {file} has no key that you may read. "
            "`vedette keys create --account <email>` makes one.",
            "SETTING",
        ) from None
