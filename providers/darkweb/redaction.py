"""The removal of secrets from leaked text before it is stored: passwords, card numbers, keys, tokens."""

from __future__ import annotations

import re

REDACTED = "[redacted]"

_EMAIL = r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_SECRET_NAMES = (
    r"pass(?:word|wd|phrase|code)?|pwd|passwort|contraseña|mot de passe|senha|secret|token|pin|cvv2?|cvc2?|"
    r"(?:api|access|secret|private)[ _-]?key|auth(?:orization)?|bearer|hash|credentials?"
)
# Every repetition is bounded, so that no text takes long.
_BEFORE_SECRET = re.compile(
    # A list of accounts: address, separator, password.
    rf"(?P<list>{_EMAIL}(?:[ \t]{{0,9}}[:;|][ \t]{{0,9}}|,))(?!{_EMAIL})\S+"
    # An address with credentials in it.
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{1,99}:)[^\s/@]{1,99}(?=@)"
    # A field whose name suggests a secret.
    rf"|(?P<field>\b(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?:{_SECRET_NAMES})\b[\"']?[ \t]{{0,9}}"
    r"(?:[:=]|=>|->|\bis\b)[ \t]{0,9}(?:bearer[ \t]+|basic[ \t]+)?)"
    r"(?:\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|\S+)",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?"  # a JSON Web Token
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|[sr]k_(?:live|test)_|sk-)[A-Za-z0-9_-]{10,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\$(?:2[abxy]|argon2(?:id|i|d)|[156])\$[A-Za-z0-9./$=,+]{8,}"  # hashes of passwords
    r"|\b[0-9a-fA-F]{32}(?:[0-9a-fA-F]{8})?(?:[0-9a-fA-F]{24})?\b",
    re.DOTALL,
)
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")


def redact(text: str) -> str:
    """Return the text with its secrets replaced; the text around them stays readable."""
    text = _KEYS.sub(REDACTED, text)
    text = _BEFORE_SECRET.sub(_keep_prefix, text)
    return _CARD.sub(lambda match: REDACTED if _is_card(match[0]) else match[0], text)


def _keep_prefix(match: re.Match[str]) -> str:
    return f"{match['list'] or match['url'] or match['field']}{REDACTED}"


def _is_card(text: str) -> bool:
    """Return whether a number passes Luhn's check, as every payment card does."""
    digits = [int(character) for character in reversed(text) if character.isdigit()]
    doubled = [sum(divmod(digit * 2, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
