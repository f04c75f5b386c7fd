"""Commands of `hlo reduce --check` that hang, fork, fill the disk, or print without end: bounded, and nothing is left."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hlo_cli.commands.reduce.checks import Command, Outcome, Scratch, _marked, has_match, scratch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by their marks in /proc")
SECONDS = 1.0
PYTHON = f'"{sys.executable}" -c'
DAEMON = "import os,time; os.fork() and os._exit(3); os.setsid(); os.fork() and os._exit(0); time.sleep(99)"
HOSTILE = {
    "hangs": ("sleep 99", "time"),
    "hangs and ignores signals": ("trap '' TERM INT HUP; while :; do sleep 9; done", "time"),
    "stops itself": ("kill -STOP $$; sleep 99", "time"),
    "reads what nobody writes": ("cat; exit 3", 3),
    "closes its output and hangs": ("exec >&- 2>&-; sleep 99", "time"),
    "spins": ("while :; do :; done", "time"),
    "leaves a child that holds the pipe": ("sleep 99 & exit 3", 3),
    "leaves fifty children": ("for i in $(seq 50); do sleep 99 & done; exit 3", 3),
    "leaves a child in a session of its own": ("setsid sleep 99 >/dev/null 2>&1 & exit 3", 3),
    "becomes a daemon": (f"{PYTHON} '{DAEMON}'", 3),
    "forks again and again": ("f() { sleep 0.05; (f &) ; }; f; f; f; sleep 99", "time"),
    "prints without end": ("yes", "output"),
    "prints a gigabyte": ("head -c 1G /dev/zero", "output"),
    "prints in the background": ("yes & exit 3", "output"),
    "fills the disk with a file": ("yes > full; exit 3", 3),
    "fills the disk with files": ("i=0; while :; do i=$((i+1)); head -c 200M /dev/zero > $i; done", "disk"),
    "takes all memory": (f"{PYTHON} 'bytearray(1 << 45)'", 1),
    "ends by a signal": ("kill -SEGV $$", -11),
    "kills its group": ("kill -KILL 0", -9),
    "removes its folder": ('rm -r "$PWD"; exit 3', 3),
    "links to other folders": ("ln -s / root; ln -s .. up; exit 3", 3),
    "takes the permissions of its folder": ("mkdir -p a/b; chmod 000 a; exit 3", 3),
    "prints what is no text": (r"printf '\377\000\033[2J'; exit 3", 3),
}


@pytest.fixture
def place() -> Iterator[Scratch]:
    with scratch() as found:
        yield found
    assert not os.path.exists(found.folder)


def run(line: str, place: Scratch) -> Outcome:
    return Command(line, SECONDS, 1 << 34, place).run("HloModule m")


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_commands_are_bounded(kind: str, place: Scratch, tmp_path: Path) -> None:
    line, expected = HOSTILE[kind]
    began = time.monotonic()
    outcome = run(f": {{}}; {line}", place)
    assert time.monotonic() - began < 15 * SECONDS  # of a machine with other work
    # A slow machine reaches the limit of time before another one.
    limits = (expected, "time") if expected in ("output", "disk") else (expected,)
    assert (outcome.limit or outcome.code) in limits, outcome
    assert len(outcome.output) <= 3 << 20
    assert _marked(place.mark) == []
    assert os.listdir(place.folder) == []


def test_the_path_is_that_of_braces_or_the_last_word(place: Scratch) -> None:
    assert run("cat {} | tr H h", place).output == "hloModule m"
    assert run("cat", place).output == "HloModule m"
    assert run("echo {} {}", place).output.count("module.hlo") == 2


def test_the_end_of_long_output_is_searched(place: Scratch) -> None:
    outcome = run("echo begins {}; head -c 9000000 /dev/zero; echo; echo ends", place)
    assert has_match("^begins ", outcome)
    assert has_match("^ends$", outcome)
    assert not has_match("^between$", outcome)


def test_what_was_cut_off_is_killed_at_the_end() -> None:
    with scratch() as place:
        environment = {**os.environ, "HLO_REDUCE_CHECK": f"{place.mark}.x"}
        number = os.spawnvpe(os.P_NOWAIT, "sleep", ["sleep", "99"], environment)
        while not _marked(place.mark):
            time.sleep(0.01)
    assert os.waitpid(number, 0)[1] == 9
