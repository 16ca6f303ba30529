"""pandas and DuckDB read real results as docs/recipes/results-to-pandas-duckdb-siem.md says."""

from __future__ import annotations

import asyncio
import json

import pytest

from supply.locks import ANALYSIS
from tests.documentation import pages
from tests.documentation.reader import Reader
from tests.pinned_packages import python_packages, run

pytestmark = pytest.mark.long

_BLOCKS = pages.read("docs/recipes/results-to-pandas-duckdb-siem.md")
_COUNTRIES = {"AU": 1, "NL": 1, "US": 1}


async def test_pandas_and_duckdb_count_the_countries_of_a_jobs_results(reader: Reader) -> None:
    await reader.read(_BLOCKS[:1])
    with_pandas, with_duckdb = (block.text for block in _BLOCKS if block.language == "python")
    python = await asyncio.to_thread(python_packages, ANALYSIS) / "bin" / "python"

    said = await asyncio.to_thread(run, python, "-W", "error", "-c", with_pandas, cwd=reader.folder)
    assert json.loads(said) == _COUNTRIES

    said = await asyncio.to_thread(run, python, "-W", "error", "-c", with_duckdb, cwd=reader.folder)
    assert said.splitlines() == [str(list(_COUNTRIES.items())), "[(3,)]"]
