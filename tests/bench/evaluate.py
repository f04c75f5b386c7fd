"""The evaluator against XLA:CPU and against numpy by hand, in processor time, on one thread as far as both allow.

`evaluate.py ROUNDS [WORD]` prints a line of JSON for each row, or for those of modules whose description has the
word; `evaluate_rows` runs it as a process with a limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, float | None, float | None]
"""What was measured, the figure, what it is compared with, their ratio, and its budget."""

ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Keeps numpy's BLAS on one thread; XLA may use another one, whose processor time counts as well."""
SECONDS = 900
"""What the section may take."""


def evaluate_rows(rounds: int) -> Iterator[Row]:
    """All rows, measured in a process of their own that has one thread; it is ended after `SECONDS`."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    command = ["timeout", str(SECONDS), sys.executable, __file__, str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            what, ours, theirs, ratio, budget = json.loads(line)
            yield what, ours, theirs, ratio, budget
    if process.returncode:
        yield "evaluate", f"exit code {process.returncode}", "", 1.0, 0.0


def _rows(rounds: int, word: str = "") -> Iterator[Row]:
    from evaluate_cases import CASES, Case, model_rows, overhead

    def row(case: Case) -> Row:
        ours, theirs = case.ours(), case.xla() if case.by_hand is None else case.by_hand
        mine, other = _seconds(ours, theirs, rounds)
        return case.what, _time(mine), _time(other), mine / other, case.budget

    for make in CASES:
        if word in (case := make()).what:
            yield row(case)
    if word:
        return
    yield from overhead(lambda ours, theirs: _seconds(ours, theirs, rounds))
    yield from model_rows(lambda ours, theirs: _seconds(ours, theirs, rounds))


def _seconds(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The least processor time of both, which take turns; short work is repeated."""
    works = (ours, theirs)
    counts = []
    for work in works:
        work()
        counts.append(max(1, min(1000, int(0.02 / max(1e-6, _processor(work, 1))))))
    times = [[_processor(work, count) for work, count in zip(works, counts, strict=True)] for _ in range(rounds)]
    mine, other = (min(column) for column in zip(*times, strict=True))
    return mine, other


def _processor(work: Callable[[], Any], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - started) / count


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.2f} us"


def main(arguments: Sequence[str]) -> None:
    """Prints each row as it is measured."""
    import numpy as np

    with np.errstate(all="ignore"):
        for row in _rows(int(arguments[0]), *arguments[1:]):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
