"""Names as sources write them."""

from __future__ import annotations

import re
import unicodedata

_LEGAL_FORMS = frozenset(
    "ab ag aktiengesellschaft aps as asa bhd bv co company corp corporation cv eg gmbh inc incorporated"
    " kabushiki kaisha kg kgaa kk limited llc llp lp ltd ltda nv oy oyj plc pte pty public pvt sa sab sarl"
    " sas se spa srl zrt".split()
)


def bare_name(name: str) -> str:
    """A name without what sources write differently: case and punctuation."""
    return "".join(character for character in name.casefold() if character.isalnum()) or name


def folded_name(name: str) -> str:
    """A name without what tells no two apart: case, spaces, and how its accents are encoded."""
    folded = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", " ".join(folded.split()))


def plain_name(name: str) -> str:
    """A name without what is written in several ways: case, accents, punctuation, `&`."""
    decomposed = unicodedata.normalize("NFKD", name.casefold().replace("&", " and "))
    kept = "".join(character for character in decomposed if not unicodedata.combining(character))
    kept = re.sub(r"(?<=\b\w)\.(?=\w\b)", "", kept)  # S.A. and SA are one
    return " ".join(re.sub(r"[^\w]+", " ", kept).split())


def company_name(name: str) -> str:
    """The plain name of a company without a leading `the` and the legal form at the end."""
    words = plain_name(name).removeprefix("the ").split()
    while len(words) > 1 and (words[-1] in _LEGAL_FORMS or words[-1] == "and"):
        words.pop()
    return " ".join(words)
