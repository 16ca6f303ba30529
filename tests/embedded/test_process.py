"""Child processes: their ends, their last words, their logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from embedded.process import Child, cap_log, command_line, stop_leftover
from tests.stacks import eventually

_ROOT = Path(__file__).resolve().parents[2]


def shell(tmp_path: Path, script: str, *, stop_signal: signal.Signals = signal.SIGTERM) -> Child:
    return Child(
        "shell", ["/bin/sh", "-c", script], log=tmp_path / "logs" / "shell.log", stop_signal=stop_signal
    )


async def test_its_end_has_the_exit_code(tmp_path: Path) -> None:
    child = shell(tmp_path, "exit 7")
    await child.start()
    assert await child.wait() == 7
    assert child.pid is None


async def test_its_last_words_are_of_this_start_alone(tmp_path: Path) -> None:
    for words in ("first", "second"):
        child = shell(tmp_path, f"echo {words}; echo; echo bye >&2")
        await child.start()
        await child.wait()
    assert child.log_tail() == "second\nbye"
    assert child.log_tail(1) == "bye"


async def test_it_is_asked_to_stop_with_its_own_signal(tmp_path: Path) -> None:
    script = "trap 'exit 5' INT; echo up; while :; do sleep 0.05 & wait; done"
    child = shell(tmp_path, script, stop_signal=signal.SIGINT)
    await child.start()
    await eventually(lambda: child.log_tail() == "up")
    await child.stop(5)
    assert await child.wait() == 5


async def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = shell(tmp_path, "trap '' TERM; echo up; while :; do sleep 0.05; done")
    await child.start()
    await eventually(lambda: child.log_tail() == "up")
    await child.stop(0.1)
    assert await child.wait() == -signal.SIGKILL


async def test_the_terminals_interrupt_does_not_reach_it(tmp_path: Path) -> None:
    child = shell(tmp_path, "sleep 60")
    await child.start()
    assert child.pid is not None
    assert os.getsid(child.pid) == child.pid
    await child.stop(1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere children watch their parent")
async def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import asyncio
        from pathlib import Path
        from embedded.process import Child

        async def main():
            child = Child("sleep", ["sleep", "60"], log=Path({str(tmp_path / "log")!r}))
            await child.start()
            print(child.pid, flush=True)
            await child.wait()

        asyncio.run(main())
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert command_line(pid) == "sleep 60"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await eventually(lambda: command_line(pid) == "", what="the child is gone")


async def test_a_supervised_process_notices_that_its_supervisor_is_gone() -> None:
    """The way for systems without a death signal: the process looks at its parent."""
    child = (
        "import embedded.process as p, time; p.watch_supervisor(); print('up', flush=True); time.sleep(60)"
    )
    parent = (
        "import os, subprocess, sys\n"
        "environment = {**os.environ, 'SUPERVISOR_PID': str(os.getpid())}\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], env=environment)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    process.stdout.close()
    await eventually(lambda: command_line(pid) == "", what="the child is gone")


async def test_a_leftover_is_stopped_and_another_with_its_number_is_not(tmp_path: Path) -> None:
    child = shell(tmp_path, "sleep 60; true")
    await child.start()
    pid = child.pid
    assert pid is not None
    await stop_leftover(pid, lambda pid: "postgres" in command_line(pid), [(signal.SIGTERM, 1)])
    assert child.pid == pid
    await stop_leftover(pid, lambda pid: "sleep 60" in command_line(pid), [(signal.SIGTERM, 5)])
    assert await child.wait() == -signal.SIGTERM


def test_a_log_that_has_grown_is_moved_away_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        cap_log(log, limit=100)
        assert log.stat().st_size == 100
        cap_log(log, limit=99)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "api.log.1").stat().st_size == 100
