"""The hunter: `make hunt SECONDS=600`, or `python hunt.py [--seconds N] [--first SEED] [--platform cpu|tpu] [--out DIR]`.

Random programs are compiled pass by pass, and every dump is evaluated: `hlo run --passes`. What alarms is told apart by
what XLA computes on this CPU: if that is what the last dump computes here, XLA has changed the program; if it is what
the first one computes, our evaluation of a later dump is wrong. Results that differ from those of XLA without an alarm
are `ours` too, or a fault of XLA after its passes. Each alarm is kept as a folder with the dumps, `hlo bisect`'s answer,
and the module that `hlo reduce` leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo_cli import HloError, Module, load, run
from hlo_cli.analysis.comparison.two_runs import with_program_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Floats, Value
from hlo_cli.cli import main as hlo
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.commands.run.against import report_of_passes
from hlo_cli.commands.run.options import RunOptions

SCRIPT = Path(__file__).parent / "hunt_programs.py"
BATCH = 20
"""Programs that one process compiles: a crash of XLA costs the rest of them."""
CLOSE = 0.02
"""The largest relative distance of results that agree: those of narrow types have one hundredth of rounding."""
WELL = 1e-3
"""The largest distance of a result with rounding to one without, for programs whose results XLA's can be compared with."""
LIMITS = Limits(max_bytes=1 << 30, max_operations=200_000_000, max_iterations=1000, max_seconds=30)

_NARROW_SUM = re.compile(r" = b?f16\[[\d,]*\]\S* (?:reduce|reduce-window|dot|convolution|all-reduce|scatter|while)\(")
"""XLA:CPU rounds each partial sum of such a value: a sum of a thousand terms of bf16 stops growing, at any error."""

Kind = str
"""`same`, `rounding` (of sums in narrow types, by XLA), `xla`, `ours`, `unsure`, `refused`, `error of xla`, or `crash`: the last one is ours whatever it is."""


@dataclass(frozen=True)
class Found:
    """What was found of a program: the kind, and why."""

    seed: int
    family: str
    kind: Kind
    words: str = ""


def leaves(value: Value) -> Iterator[Any]:
    """The arrays of a result."""
    if isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    elif value is not None:
        yield np.asarray(value)


def results(module: Module, arguments: Sequence[Any], floats: Floats = "exact") -> list[Any]:
    """The results of a module as evaluated here."""
    return [
        each.astype(np.complex128) for each in leaves(run(module, list(arguments), floats=floats, limits=LIMITS).result)
    ]


def apart(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The largest distance of two results, relative to the largest element of each array."""
    if [each.shape for each in one] != [each.shape for each in other]:
        return float("inf")
    largest = 0.0
    for a, b in zip(one, other, strict=True):
        if not a.size:
            continue
        is_odd = ~(np.isfinite(a) & np.isfinite(b))
        scale = max(float(np.abs(np.where(is_odd, 0, a)).max()), 1e-6)
        with np.errstate(all="ignore"):
            distance = np.where(is_odd, 0, np.abs(np.where(is_odd, 0, a) - np.where(is_odd, 0, b)) / scale)
        largest = max(largest, float(distance.max()))
    return largest


def judge(place: Path, seed: int, family: str) -> Found:
    """What a program's dumps and results show."""
    arguments = [np.load(place / f"arg{at}.npy") for at in range(len(list(place.glob("arg*.npy"))))]
    given = tuple(str(place / f"arg{at}.npy") for at in range(len(arguments)))
    options = RunOptions(args=given, allow_uncovered=True, max_seconds=60.0)
    dumps = str(place / "dumps")
    try:
        report = report_of_passes([dumps], InputOptions(module=main_module(place)), options, quiet=True)
    except HloError as error:
        return Found(seed, family, "refused", error.diagnostic.message)
    alarm = "" if report.numbers["same"] else report.answer
    executed = [np.load(path).astype(np.complex128) for path in sorted(place.glob("result*.npy"))]
    if not executed:
        return Found(seed, family, "unsure" if alarm else "same", alarm)
    try:
        before, after = (
            load(dumps, module=main_module(place), stage=f"{when}_optimizations") for when in ("before", "after")
        )
        first, widened = results(before, arguments), results(before, arguments, "widen")
        if apart(first, widened) > WELL:
            return Found(seed, family, "unsure" if alarm else "same", f"not well-conditioned; {alarm}" if alarm else "")
        of_first = apart(first, executed)
        last = results(with_program_of(after, before), arguments)
    except HloError as error:
        return Found(seed, family, "unsure" if alarm else "refused", f"{alarm}; {error.diagnostic.message}")
    # The dump alone may not have how its results are divided; `hlo run --passes` knows that.
    of_last = apart(last, executed) if [a.shape for a in last] == [b.shape for b in executed] else of_first
    words = f"XLA is {of_first:.1e} from the first dump, {of_last:.1e} from the last one"
    if of_first <= CLOSE:
        return Found(seed, family, "ours" if alarm or of_last > CLOSE else "same", f"{alarm or 'no alarm'}; {words}")
    if not alarm and _NARROW_SUM.search(before.source.text):
        return Found(seed, family, "rounding", words)
    return Found(seed, family, "xla" if alarm and of_last <= CLOSE else "ours", f"{alarm or 'no alarm'}; {words}")


def main_module(place: Path) -> str | None:
    """The name of the module with most dumps: helpers of JAX have some of their own."""
    names = Counter(path.name.split(".")[0] for path in (place / "dumps").glob("module_*.txt"))
    return names.most_common(1)[0][0] if len(names) > 1 else None


def keep(place: Path, found: Found, out: Path) -> None:
    """The folder of an alarm, with its causes as far as they are found."""
    folder = out / f"{found.kind.replace(' ', '_')}_{found.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(place, folder)
    (folder / "found.txt").write_text(f"{found.family}, seed {found.seed}\n{found.words}\n")
    if found.kind in ("xla", "ours", "unsure") and not found.words.startswith("no alarm"):
        chosen = ["--module", name] if (name := main_module(place)) is not None else []
        dumps = str(folder / "dumps")
        given = [word for path in sorted(folder.glob("arg*.npy")) for word in ("--args", str(path))]
        hlo(["bisect", dumps, *chosen, *given, "-o", str(folder / "bisect.json"), "-q"], standalone=False)
        hlo(
            ["reduce", dumps, *chosen, "--passes", "--max-seconds", "60", "-o", str(folder / "reduced"), "-q"],
            standalone=False,
        )


def hunt(first: int, platform: str, out: Path, *, seconds: float, most: int | None = None) -> Iterator[Found]:
    """What was found of each program, until the time is over; alarms are kept in a folder."""
    until, seed = time.monotonic() + seconds, first
    while time.monotonic() < until and (most is None or seed < first + most):
        count = BATCH if most is None else min(BATCH, first + most - seed)
        with tempfile.TemporaryDirectory(prefix="hlo-hunt-") as folder:
            command = [sys.executable, str(SCRIPT), platform, str(seed), str(count), folder]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60 * count, check=False
            )
            compiled = [json.loads(line) for line in done.stdout.splitlines()]
            for each in compiled:
                place = Path(folder) / str(each["seed"])
                found = _judged(place, each["seed"], each["family"], each["error"])
                if found.kind not in ("same", "rounding", "refused"):
                    keep(place, found, out)
                yield found
                shutil.rmtree(place, ignore_errors=True)
                if time.monotonic() > until:
                    return
            if len(compiled) < count:
                seed += len(compiled)
                yield Found(seed, "", "error of xla", f"its process ended with exit code {done.returncode}")
                count = 1
        seed += count


def _judged(place: Path, seed: int, family: str, error: str) -> Found:
    if error:
        return Found(seed, family, "error of xla", error)
    try:
        return judge(place, seed, family)
    except Exception:  # noqa: BLE001 - a crash of ours is what is looked for
        return Found(seed, family, "crash", traceback.format_exc())


def main() -> None:
    """Prints a line for each alarm, and the counts at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("hunted"))
    given = parser.parse_args()
    os.environ.setdefault("HLO_CACHE", "0")
    given.out.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    last = given.first
    for found in hunt(given.first, given.platform, given.out, seconds=given.seconds):
        counts[found.kind] += 1
        last = found.seed
        if found.kind == "refused":
            refused[found.words[:90]] += 1
        elif found.kind not in ("same", "rounding"):
            print(f"{found.kind}: seed {found.seed} ({found.family}): {found.words}", flush=True)
    print(f"{sum(counts.values())} programs of {given.platform}, seeds {given.first} to {last}: {dict(counts)}")
    for words, count in refused.most_common():
        print(f"  refused {count} times: {words}")


if __name__ == "__main__":
    main()
