"""`vedette api` and `vedette worker` as processes of somebody else's supervisor."""

from pathlib import Path

from settings import ExitCode
from tests.stacks import failed, vedette


def test_one_api_refuses_to_be_several_and_says_who_starts_these(tmp_path: Path, database_url: str) -> None:
    done = vedette(
        tmp_path, "api", DATABASE_URL=database_url, TEMPORAL_ADDRESS="127.0.0.1:1", VEDETTE_API_PROCESSES="2"
    )
    said = failed(done, ExitCode.SETTING)
    assert "VEDETTE_API_PROCESSES is 2" in said and "`vedette up`" in said
