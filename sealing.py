"""Sealing: all secrets at rest are encrypted with one keyring of AES-256-GCM keys.

HKDF-SHA256 derives a key for each purpose from one root key, so that no two uses share a key. Sealed form:
version (1 byte) ∥ key id (4 bytes) ∥ nonce (12 bytes) ∥ ciphertext and tag. The context (an account, a name)
is authenticated: a value copied to another row does not open there.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from settings import ExitCode, Settings, StartError

_VERSION = b"\x01"
_KEY_ID_BYTES, _NONCE_BYTES = 4, 12
_FINGERPRINT_CHARACTERS = 32
_HEADER_BYTES = 1 + _KEY_ID_BYTES + _NONCE_BYTES


def decode_base64url(text: str) -> bytes | None:
    """Decode base64url without padding; return None for any spelling but the canonical one.

    Decoders ignore differences: other letters for `-` and `_`, unused bits of the last letter. Then one
    credential would have several texts.
    """
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text else None


class UnsealError(Exception):
    """A sealed value does not open here: sealed with a missing key or for another context, or damaged."""


class Keyring:
    """The root keys, newest first: the first one seals, all of them open."""

    def __init__(self, root_keys: Sequence[str]) -> None:
        if not root_keys:
            raise ValueError("a keyring needs a key")
        self._roots = {
            hashlib.sha256(key.encode()).digest()[:_KEY_ID_BYTES]: key.encode() for key in root_keys
        }
        self._current = next(iter(self._roots))
        self.derive = lru_cache(maxsize=64)(self._derive)

    def _derive(self, purpose: str, key_id: bytes | None = None) -> bytes:
        root = self._roots[key_id or self._current]
        return HKDF(SHA256(), 32, salt=None, info=b"vedette/" + purpose.encode()).derive(root)

    def derive_keys(self, purpose: str) -> list[bytes]:
        """Return the 32-byte keys for `purpose`, newest first: sign with the first, verify with any."""
        return [self.derive(purpose, key_id) for key_id in self._roots]

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of the keys, newest first. A key cannot be computed from its fingerprint."""
        return [key.hex()[:_FINGERPRINT_CHARACTERS] for key in self.derive_keys("fingerprint")]

    @property
    def header(self) -> bytes:
        """The first bytes of all values that are sealed now: the version and the id of the first key."""
        return _VERSION + self._current

    def seal(self, purpose: str, plaintext: bytes, context: str = "") -> bytes:
        """Encrypt `plaintext` so that it opens only for the same purpose and context."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(self.derive(purpose, self._current)).encrypt(nonce, plaintext, context.encode())
        return self.header + nonce + sealed

    def open(self, purpose: str, sealed: bytes, context: str = "") -> bytes:
        """Decrypt a value made by `seal`.

        Raises:
            UnsealError: no key of the ring opens it here.
        """
        key_id = sealed[1 : 1 + _KEY_ID_BYTES]
        if sealed[:1] != _VERSION or key_id not in self._roots:
            raise UnsealError(f"sealed with a key that is not in the keyring (purpose {purpose})")
        nonce = sealed[1 + _KEY_ID_BYTES : _HEADER_BYTES]
        try:
            return AESGCM(self.derive(purpose, key_id)).decrypt(
                nonce, sealed[_HEADER_BYTES:], context.encode()
            )
        except (InvalidTag, ValueError):  # ValueError if it is cut off within the nonce
            raise UnsealError(f"does not open in this context (purpose {purpose})") from None


def root_keys(settings: Settings, *, sealed_data_exists: bool) -> list[str]:
    """Return the root keys: `VEDETTE_SECRET_KEY` (comma-separated) if set, else those in `<data>/secret.key`.

    The file is created if it is missing.

    Args:
        settings: `secret_key` and `data`.
        sealed_data_exists: whether the database contains sealed values, so that a new key would lose them.

    Raises:
        StartError: there are sealed values and no key, or a key is too short.
    """
    if settings.secret_key:
        keys = settings.secret_key.get_secret_value().split(",")
        return _check_keys([key.strip() for key in keys if key.strip()], "VEDETTE_SECRET_KEY")
    path = settings.data / "secret.key"
    if path.exists():
        try:
            return _check_keys(path.read_text(encoding="utf-8").split(), str(path))
        except OSError as error:
            raise StartError(f"{path} cannot be read: {error.strerror}.", ExitCode.SECRET_KEY) from None
    if sealed_data_exists:
        raise StartError(
            f"The database holds sealed values, but their key is gone: {path} is missing and "
            "VEDETTE_SECRET_KEY is not set.\nPut the file back, or set VEDETTE_SECRET_KEY to its content.",
            ExitCode.SECRET_KEY,
        )
    key = secrets.token_urlsafe(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())
    return [key]


def source_of_keys(settings: Settings) -> str:
    """Return the source of the root keys, for messages: `VEDETTE_SECRET_KEY`, or the path of the file."""
    return "VEDETTE_SECRET_KEY" if settings.secret_key else str(settings.data / "secret.key")


def _check_keys(keys: Iterable[str], source: str) -> list[str]:
    keys = list(keys)
    if not keys or any(len(key) < 32 for key in keys):
        raise StartError(f"{source}: every key needs at least 32 characters", ExitCode.SECRET_KEY)
    return keys
