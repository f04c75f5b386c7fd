"""Whole commands run in this process on a file, as a user runs them: what each may be asked, and how it may fail."""

from __future__ import annotations

import io
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final

from hlo_cli.cli import main

MAX_SECONDS: Final = 2.0
"""CPU time that one answer may take."""
HANGS_SECONDS: Final = 5.0
"""CPU time after which an answer is not waited for."""
_EXIT_CODES: Final = (0, 1, 2)
_FORMATS: Final = ("table", "screen", "json", "jsonl", "csv", "tsv", "md", "html", "svg")
_FINDINGS: Final = ("full", "concise", "summary", "github", "json", "sarif", "csv")
_WHERE: Final = (
    "opcode == fusion",
    "padded_bytes > 1KiB",
    'op_name ~ "a"',
    "rank > 1 and users > 0",
    "depends_on(x) or flops > 1",
)
_CHIPS: Final = ("v5e", "v5p", "h100", "a100-80gb")
SELECTIONS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "graph": (
        (),
        ("--around", "NAME"),
        ("--around", "NAME", "--depth", "1", "--format", "tree"),
        ("--around", "NAME", "--expand", "all", "--format", "dot"),
        ("--where", "opcode == fusion", "--format", "svg"),
        ("--expand", "all", "--format", "dot"),
        ("--transfers", "--format", "dot"),
        ("--heat", "bytes", "--format", "svg"),
        ("--heat", "time", "--chip", "CHIP", "--format", "json"),
        ("--between", "NAME", "NAME"),
    ),
    "parse": (
        (),
        ("--instructions",),
        ("--tree",),
        ("--explain", "NAME"),
        ("--slice", "NAME", "--operands", "3", "--users", "2"),
        ("--format", "hlo"),
        ("--format", "hlo", "--desugar"),
        ("--format", "hlo", "--sugar"),
        ("--strict",),
        ("--each",),
    ),
    "layout": (
        (),
        ("--by", "instruction"),
        ("--by", "op_name"),
        ("--by", "source"),
        ("--by", "computation"),
        ("--by", "argument"),
        ("--each",),
    ),
    "memspace": (
        (),
        ("--value", "NAME"),
        ("--value", "NAME{0}"),
        ("--chip", "CHIP"),
        ("--limit", "1KiB"),
        ("--at", "NAME"),
        ("--by", "scope"),
        ("--by", "op_name"),
        ("--by", "argument"),
        ("--traffic",),
        ("--compare",),
        ("--space", "0"),
    ),
    "schedule": (
        (),
        ("--sequence",),
        ("--by", "scope"),
        ("--by", "source", "--chip", "CHIP"),
        ("--chip", "CHIP"),
        ("--critical-path", "bytes"),
        ("--critical-path", "flops"),
        ("--critical-path", "time", "--chip", "CHIP"),
        ("--reorder", "memory"),
        ("--reorder", "dfs"),
        ("--reorder", "bfs"),
        ("--reorder", "latency"),
        ("--reorder", "postorder"),
        ("--desugar",),
        ("--sugar",),
    ),
    "fuse": (
        (),
        ("--cost",),
        ("--cost", "--as-xla"),
        ("--cost", "--chip", "CHIP"),
        ("--dots",),
        ("--by", "source"),
        ("--by", "argument", "--chip", "CHIP"),
        ("--custom-calls",),
        ("--c-signature",),
        ("--why-not",),
        ("--run-pass",),
        ("--run-pass", "--format", "hlo"),
        ("--unfuse", "all"),
        ("--unfuse", "all", "--format", "hlo"),
        ("--unfuse", "NAME"),
        ("--fuse", "NAME,NAME"),
        ("--chip", "CHIP"),
    ),
    "shard": (
        (),
        ("--by", "axis"),
        ("--by", "argument"),
        ("--where", "replication > 1"),
        ("--mesh", "data=2,model=4"),
        ("--comms",),
        ("--comms", "--by", "source"),
        ("--comms", "--chip", "CHIP"),
        ("--comms", "--algorithm", "oneshot"),
        ("--each",),
    ),
    "report": ((), ("--chip", "CHIP"), ("--each",), ("--table", "lines")),
    "run": (
        ("--max-seconds", "1", "--max-operations", "1e7"),
        ("--max-seconds", "1", "--max-operations", "1e7", "--at", "NAME"),
        ("--max-seconds", "1", "--max-operations", "1e7", "--probe", "nan"),
    ),
    "lint": (("--select", "ALL"), ("--select", "ALL", "--statistics"), ("--select", "ALL", "--strict"), ()),
    "diff": ((), ("--text",), ("--stat",), ("--schedule",), ("--normalize",), ("--exit-code",)),
    "tile-index": (("0",), ("0", "--explain"), ("5", "--inverse"), ("--all", "--draw"), ("0,1",), ()),
}


class Hangs(BaseException):
    """The time that any answer may take is over."""


def command_line(
    random: Random,
    path: Path,
    other: Path,
    names: Sequence[str],
    chosen: tuple[str, tuple[str, ...]] | None = None,
) -> list[str]:
    """A command that asks something about a file, or the one that is chosen; `names` are those of instructions."""
    command = random.choice(tuple(SELECTIONS)) if chosen is None else chosen[0]
    asked = random.choice(SELECTIONS[command]) if chosen is None else chosen[1]
    name = random.choice(names) if names else "x"
    words = [word.replace("NAME", name).replace("CHIP", random.choice(_CHIPS)) for word in asked]
    line = [command, f"{path}:{name}" if command == "tile-index" else str(path)]
    if command == "diff" and "--normalize" not in asked:
        line += [str(other)] if random.random() < 0.8 else [str(path)]
    line += words
    if "--format" not in line and random.random() < 0.4:
        line += ["--format", random.choice(_FINDINGS if command == "lint" else _FORMATS)]
    if random.random() < 0.1 and command not in ("diff", "lint", "report", "tile-index"):
        line += ["--where", random.choice(_WHERE)]
    if random.random() < 0.3:
        line += ["--top", random.choice(("0", "3"))]
    if random.random() < 0.1:
        line.append("--verbose")
    return line


def failure_of(line: Sequence[str]) -> str | None:
    """What goes wrong with a command, as one line that is the same for the same bug; None if nothing does."""
    out, err = io.StringIO(), io.StringIO()
    started = time.process_time()
    try:
        with time_limit(HANGS_SECONDS), redirect_stdout(out), redirect_stderr(err):
            code = main(list(line), standalone=False)
    except Hangs as error:
        return f"{line[0]} hangs in {place_of(error)}"
    except Exception as error:  # noqa: BLE001 # finding these is what this is for
        return f"{type(error).__name__} in {place_of(error)}"
    seconds = time.process_time() - started
    if seconds > MAX_SECONDS:
        return f"{line[0]} is slow"
    if (bug := re.search(r"internal error, please report: \S+ \S+ at (\S+?):\d+ \((\w+)", err.getvalue())) is not None:
        return f"{bug[2]} in {bug[1]}"
    if code not in _EXIT_CODES:
        return f"{line[0]} exits with {code}"
    if "Traceback" in err.getvalue():
        return f"{line[0]} shows a traceback"
    if code == 2 and not (err.getvalue().strip() or out.getvalue().strip()):
        return f"{line[0]} fails without a word"
    return None


def place_of(error: BaseException) -> str:
    """The innermost function of the package in which an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "hlo_cli" in frame.filename] or frames
    return f"{Path(inside[-1].filename).name}:{inside[-1].name}"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises Hangs after some seconds of CPU time, where the system can."""

    def ring(*_: object) -> None:
        raise Hangs

    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGPROF, ring)
    left, _ = signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left)  # that of the test, as conftest.py sets it
        signal.signal(signal.SIGPROF, before)
