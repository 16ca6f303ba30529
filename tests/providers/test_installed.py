"""The datasets of a data folder: replaced all at once, noticed without a restart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from providers.datasets import installed
from providers.datasets.installed import Datasets, Provenance


def put(data: Path, content: str, *, name: str = "words", version: str = "1") -> None:
    folder = installed.folder(data)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.new").write_text(content)
    (folder / "b.new").write_text(content)
    files = {"a": folder / "a.new", "b": folder / "b.new"}
    installed.install(data, name, files, Provenance(source="here", version=version, licence="none"))


def both(files: Mapping[str, Path]) -> str:
    a, b = files["a"].read_text(), files["b"].read_text()
    assert a == b
    return a


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the reader."""
    clock = [1000.0]
    monkeypatch.setattr("providers.datasets.installed.time.monotonic", lambda: clock[0])
    return clock


def test_there_is_nothing_before_anything_is_installed(tmp_path: Path) -> None:
    datasets = Datasets(tmp_path)
    assert datasets.get("words", both) is None
    assert datasets.info("words") is None
    assert not installed.whole(tmp_path, "words")


def test_what_is_installed_is_opened_once(tmp_path: Path) -> None:
    put(tmp_path, "one")
    opened: list[str] = []

    def opener(files: Mapping[str, Path]) -> str:
        opened.append(both(files))
        return opened[-1]

    datasets = Datasets(tmp_path)
    assert [datasets.get("words", opener) for _ in range(3)] == ["one", "one", "one"]
    assert opened == ["one"]


def test_a_replacement_is_noticed_within_two_seconds(tmp_path: Path, now: list[float]) -> None:
    datasets = Datasets(tmp_path)
    assert datasets.get("words", both) is None
    for content in ("one", "two", "three"):
        put(tmp_path, content)
        now[0] += 2.1
        assert datasets.get("words", both) == content


def test_the_folder_is_not_looked_at_for_every_lookup(tmp_path: Path, now: list[float]) -> None:
    put(tmp_path, "one")
    datasets = Datasets(tmp_path)
    assert datasets.get("words", both) == "one"
    put(tmp_path, "two")
    now[0] += 1.9
    assert datasets.get("words", both) == "one"


def test_replacing_one_dataset_leaves_the_other_open(tmp_path: Path, now: list[float]) -> None:
    put(tmp_path, "one")
    put(tmp_path, "other", name="others")
    opened: list[str] = []

    def opener(files: Mapping[str, Path]) -> str:
        opened.append(both(files))
        return opened[-1]

    datasets = Datasets(tmp_path)
    datasets.get("others", opener)
    put(tmp_path, "two")
    now[0] += 3
    datasets.get("others", opener)
    assert opened == ["other"]


def test_a_reader_of_the_old_version_reads_on(tmp_path: Path) -> None:
    put(tmp_path, "one")
    paths: list[Path] = []

    def opener(files: Mapping[str, Path]) -> object:
        paths.extend(files.values())
        return files["a"].open()

    reader = Datasets(tmp_path).get("words", opener)
    put(tmp_path, "two")
    assert not any(path.exists() for path in paths)
    assert reader is not None
    with reader as file:  # pyright: ignore[reportGeneralTypeIssues]
        assert file.read() == "one"


def test_files_of_the_version_before_are_removed(tmp_path: Path) -> None:
    for content in ("one", "two"):
        put(tmp_path, content)
    names = {path.name for path in installed.folder(tmp_path).iterdir()}
    assert len(names) == 3
    assert "manifest.json" in names


@pytest.mark.parametrize("died", ["before the files are named", "before the manifest is replaced"])
def test_an_update_that_is_interrupted_leaves_the_old_version(
    died: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "one")
    replace = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if died == "before the files are named" or target.name == "manifest.json":
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", dying)
        put(tmp_path, "two")
    assert Datasets(tmp_path).get("words", both) == "one"
    assert installed.whole(tmp_path, "words")
    put(tmp_path, "three")
    assert Datasets(tmp_path).get("words", both) == "three"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"datasets": {"words": 1}}', "\x00"])
def test_a_manifest_that_cannot_be_read_counts_as_no_data(content: str, tmp_path: Path) -> None:
    put(tmp_path, "one")
    (installed.folder(tmp_path) / "manifest.json").write_text(content)
    assert Datasets(tmp_path).get("words", both) is None


def test_data_that_cannot_be_opened_counts_as_none(tmp_path: Path, now: list[float]) -> None:
    def strict(files: Mapping[str, Path]) -> str:
        if both(files) == "bad":
            raise ValueError("bad data")
        return both(files)

    put(tmp_path, "bad")
    datasets = Datasets(tmp_path)
    assert datasets.get("words", strict) is None
    put(tmp_path, "good")
    now[0] += 3
    assert datasets.get("words", strict) == "good"


def test_a_dataset_with_a_file_cut_short_is_not_installed(tmp_path: Path) -> None:
    put(tmp_path, "one")
    known = installed.read_manifest(tmp_path).datasets["words"]
    path = installed.folder(tmp_path) / known.files["a"].name
    os.truncate(path, 1)
    assert not installed.whole(tmp_path, "words")
    path.unlink()
    assert not installed.whole(tmp_path, "words")


FETCHED = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("version", "dated"),
    [
        ("2.3.2026060513", datetime(2026, 6, 5, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("20261121", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-12-01", FETCHED),
        ("2026-13-41", FETCHED),
        ("small", FETCHED),
        ("1.120261121", FETCHED),
    ],
)
def test_data_is_as_old_as_its_version_says(version: str, dated: datetime) -> None:
    here = installed.Installed(source="x", version=version, licence="x", fetched_at=FETCHED, files={})
    assert here.dated == dated
