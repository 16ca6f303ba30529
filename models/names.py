"""Normal forms of names, because sources write them differently."""

from __future__ import annotations

import re
import unicodedata

_LEGAL_FORMS = frozenset(
    "ab ag aktiengesellschaft aps as asa bhd bv co company corp corporation cv eg gmbh inc incorporated"
    " kabushiki kaisha kg kgaa kk limited llc llp lp ltd ltda nv oy oyj plc pte pty public pvt sa sab sarl"
    " sas se spa srl zrt".split()
)


def bare_name(name: str) -> str:
    """Return a name without case and punctuation, which differ between sources."""
    return "".join(character for character in name.casefold() if character.isalnum()) or name


def folded_name(name: str) -> str:
    """Return a name in one form of case, spaces and Unicode, so that equal names compare equal."""
    folded = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", " ".join(folded.split()))


def plain_name(name: str) -> str:
    """Return a name without case, accents and punctuation, with `and` for `&`."""
    decomposed = unicodedata.normalize("NFKD", name.casefold().replace("&", " and "))
    kept = "".join(character for character in decomposed if not unicodedata.combining(character))
    kept = re.sub(r"(?<=\b\w)\.(?=\w\b)", "", kept)  # S.A. and SA are the same
    return " ".join(re.sub(r"[^\w]+", " ", kept).split())


def company_name(name: str) -> str:
    """Return the plain name of a company without a leading `the` and without its legal form at the end."""
    words = plain_name(name).removeprefix("the ").split()
    while len(words) > 1 and (words[-1] in _LEGAL_FORMS or words[-1] == "and"):
        words.pop()
    return " ".join(words)
