"""Countries have one name in company answers, however a source writes them."""

from __future__ import annotations

import pytest

from providers.company.places import country


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("US", "United States"),
        ("United States of America", "United States"),
        ("united states", "United States"),
        ("GB", "United Kingdom"),
        ("People's Republic of China", "China"),
        ("Czech Republic", "Czechia"),
        ("Atlantis", "Atlantis"),
        ("", None),
        (None, None),
    ],
)
def test_a_country_is_named_in_one_way(told: str | None, name: str | None) -> None:
    assert country(told) == name
