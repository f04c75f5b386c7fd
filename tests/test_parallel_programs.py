"""Programs in several processes: they may be stopped, killed or interrupted, and run as often as one likes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from hlo_cli.inputs.parallel import in_order
from processes import children_of, is_gone, until
from share import parts

SMALL = Path(__file__).parent.parent / "fixtures" / "cpu" / "feeds" / "after_optimizations.txt"

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are stopped and killed as Unix does it"),
]

_ALONE = """
import sys
sys.path[:0] = {paths!r}
import test_parallel_programs
test_parallel_programs.{call}
"""
"""A program that has no thread but its own, so that its processes are copies of it."""


def _alone(call: str) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    program = _ALONE.format(paths=[str(here), str(here.parent)], call=call)
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )


def _ends_well(program: subprocess.Popen[str], seconds: float) -> str:
    try:
        output, errors = program.communicate(timeout=seconds)
    finally:
        program.kill()
    assert (program.returncode, errors) == (0, "")
    return output


def square_slowly(number: int) -> int:
    """The square after a while, in a process that has said that it began."""
    print(number, flush=True)
    time.sleep(0.3)
    return number * number


def slow_squares(number: int) -> None:
    """Run as a program: a few squares that take a while, in two processes."""
    assert list(in_order(square_slowly, range(number), jobs=2, lost=int)) == [n * n for n in range(number)]


@pytest.mark.parametrize("number", [2, 3])
def test_the_first_process_may_be_stopped(number: int) -> None:
    program = _alone(f"slow_squares({number})")
    assert program.stdout is not None
    program.stdout.readline()
    os.kill(program.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(program.pid, signal.SIGCONT)
    _ends_well(program, 30)


def test_nobody_stays_behind_when_the_first_process_is_killed() -> None:
    program = _alone("slow_squares(1000)")
    assert program.stdout is not None
    program.stdout.readline()
    program.stdout.readline()
    children = children_of(program.pid)
    assert len(children) == 2
    program.kill()
    program.wait(10)
    until(lambda: all(map(is_gone, children)))
    program.communicate()


@pytest.mark.parametrize("patience", [0.0, 0.2])
def test_an_interrupt_ends_all_quietly(patience: float, tmp_path: Path) -> None:
    """As Ctrl-C does, which every process in the foreground is told."""
    for number in range(2000):
        (tmp_path / f"{number}.txt").symlink_to(SMALL)
    command = [sys.executable, "-m", "hlo_cli", "parse", str(tmp_path), "--each", "--jobs", "2"]
    with open(tmp_path / "errors", "w+") as errors:
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, process_group=0)
        until(lambda: children_of(program.pid) or program.poll() is not None)
        time.sleep(patience)
        children = children_of(program.pid)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(30) == 130
        errors.seek(0)
        assert errors.read() == ""
    until(lambda: all(map(is_gone, children)))


def numbers_often(times: int) -> None:
    """Run as a program: so many times a few numbers in two processes."""
    for each in range(times):
        number = each % 5
        assert list(in_order(abs, range(number), jobs=2, lost=int)) == list(range(number))
        assert not active_children()


def scans_often(times: int) -> None:
    """Run as a program: so many times a few dumps in two processes."""
    from hlo_cli.scan_modules import scan

    paths = [SMALL] * 3
    expected = list(scan(paths))
    for _ in range(times):
        assert list(scan(paths, jobs=2)) == expected


def test_it_never_hangs() -> None:
    _ends_well(_alone("numbers_often(40)"), 50)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("call", ["numbers_often(125)", "scans_often(125)"])
@pytest.mark.parametrize("part", parts(8))
def test_it_never_hangs_in_a_thousand_runs(part: int, call: str) -> None:
    _ends_well(_alone(call), 360)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("call", ["numbers_often(25)", "scans_often(25)"])
@pytest.mark.parametrize("part", parts(8))
def test_it_never_hangs_on_a_busy_machine(part: int, call: str) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        _ends_well(_alone(call), 360)
    finally:
        for program in busy:
            program.kill()
            program.wait()
