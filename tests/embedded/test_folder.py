"""The data folder: what is refused, who has it, what a stack leaves in it."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from embedded import folder, listener
from embedded.folder import RunningStack
from embedded.process import command_line
from settings import ExitCode, StartError


def refused(data: Path) -> str:
    with pytest.raises(StartError) as caught:
        folder.prepare(data)
    assert caught.value.exit_code == ExitCode.DATA_FOLDER
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_that_is_not_there_is_made_for_us_alone(tmp_path: Path) -> None:
    made = folder.prepare(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) & 0o066 == 0


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be used" in refused(tmp_path / "file")
    assert "cannot be used" in refused(tmp_path / "file" / "below")


def test_a_folder_with_other_things_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("Dear …")
    assert "holds other things (letters.txt)" in refused(tmp_path)
    assert os.listdir(tmp_path) == ["letters.txt"]


@pytest.mark.parametrize("name", ["lost+found", ".keep", "datasets", "secret.key"])
def test_what_a_fresh_disk_or_an_operator_puts_there_is_no_obstacle(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert folder.prepare(tmp_path) == tmp_path


def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", Mock(return_value=Mock(free=150 * 1024**2)))
    assert "150 MiB free, 200 needed" in refused(tmp_path)


def test_a_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path: Path) -> None:
    with folder.lock(tmp_path):
        with pytest.raises(
            StartError, match=f"in use by another stack \\(process {os.getpid()}\\)"
        ) as caught:
            folder.lock(tmp_path)
        assert caught.value.exit_code == ExitCode.DATA_FOLDER
    folder.lock(tmp_path).close()


def test_a_private_file_is_readable_by_its_owner_alone_and_replaced_whole(tmp_path: Path) -> None:
    for text in ("first", "second"):
        folder.write_private(tmp_path / "file", text)
        assert (tmp_path / "file").read_text() == text
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


def running_stack(pid: int, command: str) -> RunningStack:
    return RunningStack(
        pid=pid,
        command=command,
        url="http://127.0.0.1:1",
        database_url="postgresql://",
        temporal_address="127.0.0.1:2",
        children={"api": (3, "cli.py api")},
    )


def test_a_stack_is_found_while_its_process_lives(tmp_path: Path) -> None:
    stack = running_stack(os.getpid(), command_line(os.getpid()))
    folder.record(tmp_path, stack)
    assert folder.running(tmp_path) == stack


@pytest.mark.parametrize("command", ["", "another program"])
def test_a_stack_whose_number_belongs_to_another_process_does_not_run(tmp_path: Path, command: str) -> None:
    folder.record(tmp_path, running_stack(os.getpid(), command))
    assert folder.running(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_record_that_is_cut_short_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "stack.json").write_text(content)
    assert folder.running(tmp_path) is None


def test_a_taken_port_is_named_with_the_setting_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError, match=f"Port {port} .* VEDETTE_PORT") as caught:
            listener.listen("127.0.0.1", port)
    assert caught.value.exit_code == ExitCode.PORT_TAKEN


def test_a_host_that_is_no_address_is_a_wrong_setting() -> None:
    with pytest.raises(StartError, match="VEDETTE_HOST") as caught:
        listener.listen("not a host", 0)
    assert caught.value.exit_code == ExitCode.SETTING
