"""A search over sections of text: the sections with the words of a query, ranked by BM25, with excerpts."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

LONGEST_QUERY = 200
MOST_RESULTS = 20
_MOST_TERMS = 16
_EXCERPT = 300

# BM25's usual constants, and the weight of a word in a heading.
_SATURATION, _LENGTH_SHARE = 1.2, 0.6
_OF_HEADING, _OF_TITLE = 5, 3

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_MARKS = re.compile(r"\*\*|__|`|^\s*(?:#+|[-*>]|\d+\.)\s+|^\|[ :|-]+\|$", re.MULTILINE)
_HEAD_OR_FENCE = re.compile(r"\A#.*|^ {0,3}[`~]{3}.*$", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n\s*\n|\n(?=\||[-*] )")
_WORD = re.compile(r"[^\W_]+(?:[_.\-/][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    "a an and are as at be by can do does for from has have how i if in into is it its many me much my not "
    "of on or so that the their then there these this to was what when where which who why will with you "
    "your".split()
)


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        page: the name of the page.
        headings: its heading and those above it, from the page's down.
        anchor: of the section within the page.
        text: its Markdown, with its heading.
        weight: the factor for its scores.
    """

    page: str
    headings: tuple[str, ...]
    anchor: str
    text: str
    weight: float = 1.0


class SectionMatch(NamedTuple):
    """A matching section, its best matching paragraph (shortened, without markup), and the score."""

    section: Section
    excerpt: str
    score: float


@dataclass(frozen=True)
class _Paragraph:
    text: str
    terms: Counter[str]


class SectionIndex:
    """Finds sections by their words."""

    def __init__(self, sections: Sequence[Section]) -> None:
        """Index the sections, of which there must be at least one."""
        self._sections = sections
        self._paragraphs = [
            [_Paragraph(text, Counter(_terms(text))) for text in _paragraphs(section.text)]
            for section in sections
        ]
        self._lengths: list[int] = []
        self._found_in: dict[str, dict[int, int]] = defaultdict(dict)
        for number, section in enumerate(sections):
            counts = _counts(section, self._paragraphs[number])
            self._lengths.append(counts.total())
            for term, count in counts.items():
                self._found_in[term][number] = count
        self._usual_length = sum(self._lengths) / len(self._lengths)

    def search(self, query: str, limit: int) -> list[SectionMatch]:
        """Return the sections that match the words of `query` best, best first.

        Args:
            query: words in any order; only the first 200 characters and 16 words are read.
            limit: the most sections, from 1 to 20.
        """
        terms = list(dict.fromkeys(_terms(query[:LONGEST_QUERY])))[:_MOST_TERMS]
        scores: dict[int, float] = defaultdict(float)
        covered: dict[int, float] = defaultdict(float)
        wanted = 0.0
        for term in terms:
            rarity = self._rarity(term)
            wanted += rarity
            for number, count in self._found_in.get(term, {}).items():
                length = self._lengths[number] / self._usual_length
                damped = count + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length)
                scores[number] += rarity * count * (_SATURATION + 1) / damped
                covered[number] += rarity
        # A section with all of the words ranks above one with a single word many times.
        ranked = {
            number: score * self._sections[number].weight * covered[number] / wanted
            for number, score in scores.items()
        }
        best = sorted(ranked, key=lambda number: (-ranked[number], number))
        return [
            SectionMatch(self._sections[number], self._excerpt(number, terms), round(ranked[number], 3))
            for number in best[: max(1, min(limit, MOST_RESULTS))]
        ]

    def _rarity(self, term: str) -> float:
        """Return the weight of a term: the fewer sections have it, the more."""
        having = len(self._found_in.get(term, ()))
        return math.log(1 + (len(self._sections) - having + 0.5) / (having + 0.5))

    def _excerpt(self, number: int, terms: Collection[str]) -> str:
        wanted = frozenset(terms)
        counted = ((len(wanted & one.terms.keys()), one.text) for one in self._paragraphs[number])
        best = max(counted, key=lambda one: one[0], default=(0, ""))
        return _around(best[1], wanted)


def plain(text: str) -> str:
    """Return the text without Markdown markup and link addresses, on one line."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", text)).strip(" |\n").split())


def shorten_text(text: str, length: int) -> str:
    """Return the text, or as many whole words of it as `length` allows."""
    return text if len(text) <= length else text[:length].rpartition(" ")[0] + " …"


def _paragraphs(text: str) -> list[str]:
    """Return the readable parts of a section: its paragraphs, items and rows, as plain text."""
    blocks = _PARAGRAPH_END.split(_HEAD_OR_FENCE.sub("", text))
    return [paragraph for block in blocks if (paragraph := plain(block))]


def _counts(section: Section, paragraphs: Sequence[_Paragraph]) -> Counter[str]:
    """Return the frequency of each term in a section; terms in headings count more."""
    counts: Counter[str] = Counter()
    for paragraph in paragraphs:
        counts.update(paragraph.terms)
    *above, own = section.headings
    for text, times in [(own, _OF_HEADING), *((one, _OF_TITLE) for one in (*above, section.page))]:
        counts.update(dict.fromkeys(_terms(text), times))
    return counts


def _terms(text: str) -> Iterator[str]:
    """Yield the indexed words of a text; words joined by `_.-/` both whole and in parts."""
    for word in _WORD.findall(text.lower()):
        parts: list[str] = _PART.findall(word)
        if len(parts) > 1:
            yield word
        yield from (_stem(part) for part in parts if part not in _STOP_WORDS)


@lru_cache(4096)
def _stem(word: str) -> str:
    """Return a word without its most common English endings, so that `retries` finds `retrying`."""
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    if word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word.removesuffix("e")


def _around(paragraph: str, wanted: Collection[str]) -> str:
    """Return the part of a paragraph around the first wanted term."""
    if len(paragraph) <= _EXCERPT:
        return paragraph
    first = (word.start() for word in _WORD.finditer(paragraph) if not {*_terms(word[0])}.isdisjoint(wanted))
    start = max(0, next(first, 0) - _EXCERPT // 4)
    if start:
        start = paragraph.find(" ", start) + 1
    return ("… " if start else "") + shorten_text(paragraph[start:], _EXCERPT)
