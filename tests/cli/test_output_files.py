"""Files that commands write: nothing else is replaced, and nothing is left half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.errors import BadInput
from cli.output_files import replace_file


def write(output: Path, content: bytes = b"new") -> None:
    with replace_file(output) as file:
        file.write(content)


def test_a_file_is_replaced_and_what_lies_beside_it_stays(tmp_path: Path) -> None:
    (tmp_path / "found.csv").write_text("old")
    (tmp_path / "found.csv.part").write_text("mine")
    write(tmp_path / "found.csv")
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"found.csv": "new", "found.csv.part": "mine"}


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write(tmp_path / "pipe")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_of_any_length_is_written(tmp_path: Path) -> None:
    write(tmp_path / (250 * "n"))
    assert [path.name for path in tmp_path.iterdir()] == [250 * "n"]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadInput, match="cannot be written"):
        write(tmp_path / "loop")


def test_what_fails_half_way_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "found.csv").write_text("old")
    with pytest.raises(BadInput, match=r"--output: .*found\.csv cannot be written: No space left"):
        with replace_file(tmp_path / "found.csv") as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("found.csv", "old")]
