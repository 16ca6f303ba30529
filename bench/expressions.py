"""Expressions: what they cost beside `jmespath`, which reads them too and has no limits, and how bombs end.

    python -m bench.expressions

Prints compilations and evaluations a second, ours and `jmespath`'s on the same text where both can read it,
then milliseconds of CPU until each bomb is refused, or done, within the default limits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from inspect import unwrap
from typing import Any

import jmespath
import jmespath.parser

from bench.machine import machine
from language import expressions
from language.expressions import Budget, ExpressionError
from language.templates import compile_template

ROW: dict[str, Any] = {
    "lookup": {
        "ip": "203.0.113.9",
        "risk": {"score": 72, "vpn": False},
        "location": {"country_code": "DE", "city": "Berlin"},
    },
    "trigger": {
        "country": "DE",
        "items": [{"c": "DE" if n % 2 else "FR", "n": n, "name": f"item {n}"} for n in range(10)],
    },
}
PLAIN = {
    "dotted path": "lookup.location.country_code",
    "condition": "lookup.risk.score > `50` && lookup.location.country_code == 'DE'",
    "filter over 10 items": "trigger.items[?c == 'DE'].{n: n, name: name}",
    "function": "contains(trigger.items[*].c, lookup.location.country_code)",
}
OURS_ALONE = {
    "bare literals": "lookup.risk.score > 50 && lookup.risk.vpn == false",
    "root within a filter": "trigger.items[?c == $.lookup.location.country_code].n",
}
TEMPLATE: expressions.JSON = {
    "url": "https://example.test/hooks/{{ trigger.country }}",
    "body": {"ip": "{{ lookup.ip }}", "risk": "{{ lookup.risk }}", "fixed": [1, 2, 3]},
}


def a_second(work: Callable[[], object]) -> float:
    """Return the executions per second: the best of three rounds of about a fifth of one."""
    count, best = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(count):
            work()
        taken = time.perf_counter() - start
        if taken > 0.2:
            break
        count *= 2
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            work()
        best = max(best, count / (time.perf_counter() - start))
    return best


def speeds() -> None:
    """Print evaluations and compilations a second."""
    print(f"{'evaluations a second':28}{'ours':>12}{'jmespath':>12}")
    for name, text in PLAIN.items():
        ours = a_second(partial(expressions.compile(text).evaluate, ROW))
        print(f"{name:28}{ours:12,.0f}{a_second(partial(jmespath.compile(text).search, ROW)):12,.0f}")
    for name, text in OURS_ALONE.items():
        print(f"{name:28}{a_second(partial(expressions.compile(text).evaluate, ROW)):12,.0f}{'–':>12}")
    template = compile_template(TEMPLATE)
    print(f"{'template of 3 expressions':28}{a_second(lambda: template.render(ROW)):12,.0f}{'–':>12}")
    text = PLAIN["condition"]
    print(f"\n{'compilations a second':28}{'ours':>12}{'jmespath':>12}")
    cold = a_second(lambda: unwrap(expressions.compile)(text))
    print(f"{'cold':28}{cold:12,.0f}{a_second(lambda: _parsed(text)):12,.0f}")
    known = a_second(lambda: expressions.compile(text))
    print(f"{'from the cache':28}{known:12,.0f}{a_second(lambda: jmespath.compile(text)):12,.0f}")


def _parsed(text: str) -> object:
    jmespath.parser.Parser.purge()
    return jmespath.compile(text)


def heavy_scope() -> dict[str, Any]:
    """Return data of about a megabyte a name, as large as a request can hold."""
    chance = random.Random(1)
    return {
        "rows": [{"n": n, "s": str(n)} for n in range(2000)],
        "mixed": [chance.random() * 1000 if n % 2 else chance.randrange(1000) for n in range(60_000)],
        "words": [str(chance.randrange(10**8)) for _ in range(60_000)],
        "ints": [chance.randrange(10**6) for _ in range(150_000)],
        "floats": [n / 7 for n in range(50_000)],
        "lists": [[n] for n in range(100_000)],
        "same": [[n] for n in range(100_000)],
        "large": "a" * 1_000_000,
        "equal": "a" * 999_999 + "b",
        "medium": "a" * 29_999,
        "accents": "É" * 500_000,
        "arrays": "[" + "[]," * 30_000 + "[]]",
        "objects": "[" + ",".join(f'{{"k{n}":1}}' for n in range(20_000)) + "]",
        "needle": "a" * 98 + "b",
        "names": {f"n{n}": n for n in range(60_000)},
        "others": {f"n{n}": n for n in range(1, 60_001)},
    }


BOMBS = {
    "5,000 parentheses": "(" * 5000,
    "2,000 ( within the limit": "(" * 2000,
    "2,000 ! within the limit": "!" * 2000 + "a",
    "300 &&": "&&".join(["rows"] * 300),
    "[@,@] x 40": "|".join(["[@,@]"] * 40),
    "join doubling x 40": "large|" + "|".join(["join('',[@,@])"] * 40),
    "flatten doubling x 40": "rows|" + "|".join(["[@,@][]"] * 40),
    "equality of doubled lists": f"({'|'.join(['[@,@]'] * 40)}) == ({'|'.join(['[@,@]'] * 40)})",
    "map 2,000 x 2,000": "map(&map(&@, $.rows), rows)",
    "nested projection": "rows[*].[$.rows[*].n]",
    "nested filter": "rows[?length($.rows[?n > 5]) > 3]",
    "sort 60,000 mixed numbers": "length(sort(mixed))",
    "sort 60,000 words": "length(sort(words))",
    "sort in a map": "map(&sort($.rows[*].n), rows)",
    "max of words, again and again": "rows[?max($.words) == 'x']",
    "to_string of floats, again": "rows[?length(to_string($.floats)) > 5]",
    "to_string of 150,000 ints": "length(to_string(ints))",
    "pass on 100,000 small lists": "lists",
    "compare 100,000 small lists": "lists == same",
    "compare objects by names": "rows[?$.names == $.others]",
    "search a megabyte, again": "rows[?contains($.large, 'ab')]",
    "search with a bad needle": "rows[?contains($.medium, $.needle)]",
    "compare a megabyte, again": "rows[?$.large == $.equal]",
    "lower of a megabyte, again": "map(&lower($.accents), rows) | length(@)",
    "trim of a megabyte, again": "map(&trim($.large, 'ab'), rows) | length(@)",
    "split of a megabyte, again": "map(&split($.medium, 'a'), rows) | length(@)",
    "replace in a megabyte, again": "map(&replace($.medium, 'a', 'b'), rows) | length(@)",
    "find the last, again": "map(&find_last($.large, 'bab'), rows)",
    "group 2,000 rows, again": "map(&group_by($.rows, &s), rows) | length(@)",
    "zip 2,000 rows, again": "map(&zip($.rows, $.rows), rows) | length(@)",
    "format 2,000 times": "map(&format_date('2026-12-24', '%A %B %b %a %j %G %V %s'), rows)",
    "2,000 zones": "map(&format_date('2026-12-24', '%z', join('/', ['Etc', s])), rows)",
    "date_diff, 2,000 times": "map(&date_diff('2026-12-24', '2025-12-24', 'days'), rows)",
    "digest of a megabyte, again": "map(&hash_sha256($.large), rows)",
    "JSON of empty arrays, again": "map(&parse_json($.arrays), rows) | length(@)",
    "JSON of names, again": "map(&parse_json($.objects), rows) | length(@)",
    "url_encode, again": "map(&url_encode($.medium), rows) | length(@)",
}


def bombs() -> None:
    """Print how long each bomb takes and how it ends."""
    scope = heavy_scope()
    print(f"\n{'bomb':34}{'CPU ms':>8}  {'nodes':>8}  outcome")
    for name, text in BOMBS.items():
        budget = Budget()
        start = time.process_time()
        try:
            unwrap(expressions.compile)(text).evaluate(scope, budget)
            outcome = "done"
        except ExpressionError as error:
            outcome = error.code
        taken = (time.process_time() - start) * 1000
        print(f"{name:34}{taken:8.1f}  {100_000 - budget.nodes_left:8,}  {outcome}")


if __name__ == "__main__":
    print(machine())
    speeds()
    bombs()
