"""Measures speed and memory against jaxlib, as ratios in one run on one machine, and holds them against the budgets.

    make bench                                    everything but growing
    make bench ARGS="parse memory"                some sections
    make bench ARGS="--check"                     exit code 1 if a budget is not kept

Budgets are those of the design: XLA's own parser, and `python -c pass`, are the measure.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from statistics import median

from evaluate import evaluate_rows
from fusion_growth import exponents
from gpu_module import gpu_module
from growing import measured
from pages import page_rows
from synthetic import FIXTURES, overwriting, synthetic, text_of

from hlo_cli.ir.module import Module
from hlo_cli.syntax.text.parser import parse_module

DUMPS = (
    "tpu/v5e_conv/after_optimizations.txt",
    "tpu/v5p_scan/after_optimizations.txt",
    "gpu/h100_transformer/after_optimizations.txt.gz",
    "gpu/h100_mlp/module_0001.jit_step.before_optimizations.txt",
    "cpu/sorting/after_optimizations.txt",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: what was measured, ours and theirs as text, their ratio, and what it may be."""

    what: str
    ours: str
    theirs: str
    ratio: float | None = None
    budget: float | None = None

    @property
    def over(self) -> bool:
        """Whether the budget is not kept."""
        return self.ratio is not None and self.budget is not None and self.ratio > self.budget

    @property
    def verdict(self) -> str:
        """`ok`, `OVER`, or nothing where there is no budget."""
        return "" if self.budget is None else "OVER" if self.over else "ok"


def parse(rounds: int) -> Iterator[Measured]:
    """Time to read a module, on dumps as they are and on large ones."""
    for name in DUMPS:
        yield _race(name.rpartition("/")[0], text_of(FIXTURES / name), rounds * 2)
    for size in (4, 40):
        yield _race(f"synthetic, {size} MB", _large(size), rounds if size < 10 else max(2, rounds // 2))


def protos(rounds: int) -> Iterator[Measured]:
    """Time to read a module from a proto, and to write it; both go with what jaxlib takes for the same."""
    from jaxlib._hlo import HloModule, hlo_module_from_text

    from hlo_cli.source import Source
    from hlo_cli.syntax.proto.read_module import read_proto
    from hlo_cli.syntax.proto.write_module import module_to_bytes

    for name, text in (
        *((name.rpartition("/")[0], text_of(FIXTURES / name)) for name in DUMPS),
        *((f"synthetic, {size} MB", _large(size)) for size in (4, 40)),
    ):
        theirs = hlo_module_from_text(text)
        data, source = theirs.as_serialized_hlo_module_proto(), Source(name, "")
        yield _faster(
            f"proto, {name}, {len(data) / 1e3:,.0f} kB",
            lambda data=data, source=source: read_proto(data, source),  # type: ignore[misc]
            lambda data=data: HloModule.from_serialized_hlo_module_proto(data),  # type: ignore[misc]
            rounds,
            2.0,
        )
        if len(text) < 1e6:
            ours = parse_module(text)
            yield _faster(
                f"proto written, {name}",
                lambda ours=ours: module_to_bytes(ours),  # type: ignore[misc]
                theirs.as_serialized_hlo_module_proto,
                rounds,
                None,
            )


def values(rounds: int) -> Iterator[Measured]:
    """Time to read a module and every distinct value of its attributes."""
    from values import with_every_value

    yield _race("every value, 4 MB", _large(4), rounds, with_every_value, 0.7)


def growth(rounds: int) -> Iterator[Measured]:
    """Time a byte must not grow with the size."""
    from hlo_cli.syntax.text.parser import parse_module

    first: float | None = None
    for size in (5, 10, 20, 40):
        text = _large(size)
        rate = min(_seconds(lambda text=text: parse_module(text)) for _ in range(max(2, rounds // 2))) / len(text)  # type: ignore[misc]
        first = first or rate
        yield Measured(f"growth, {size} MB", f"{rate * 1e9:.1f} ns/B", f"{first * 1e9:.1f} ns/B", rate / first, 1.3)


def fusing(rounds: int) -> Iterator[Measured]:
    """The exponent with which the time of GPU fusion grows: last and first time, in processor seconds."""
    for what, seconds, exponent in exponents(rounds):
        yield Measured(f"fused, {what}", f"{seconds[-1]:.2f} s", f"{seconds[0]:.2f} s", exponent, 1.2)


def growing(rounds: int) -> Iterator[Measured]:
    """The exponent with which each command grows with modules that grow in one way: hours, so only if asked for."""
    for name, command, spent, exponent in measured():
        yield Measured(f"{name}, hlo {command}", f"{spent[-1]:.2f} s", f"{spent[0]:.2f} s", exponent, 1.2)


def memory(rounds: int) -> Iterator[Measured]:
    """Growth of resident memory by a module, each in a process of its own."""
    for name, text in (
        *((n.rpartition("/")[0], text_of(FIXTURES / n)) for n in DUMPS[1:3]),
        *((f"synthetic, {s} MB", _large(s)) for s in (4, 40)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "module.txt")
            path.write_text(text, encoding="utf-8")
            ours, theirs = (min(_resident(reader, path) for _ in range(2)) for reader in (OUR_READER, THEIR_READER))
        yield Measured(
            f"memory, {name}",
            f"{ours / 1e6:.1f} MB",
            f"{theirs / 1e6:.1f} MB",
            ours / theirs,
            0.6 if len(text) > 1e6 else None,
        )


def analyses(rounds: int) -> Iterator[Measured]:
    """Time to find what fills memory, as a multiple of the time to read the module."""
    from hlo_cli.analysis.memory.memory_analysis import memory_analysis

    for what, text in (
        *((f"synthetic, {size} MB", _large(size)) for size in (4, 40)),
        *(
            (f"{kept:,} values kept, {made:,} made", overwriting(kept, made))
            for kept, made in ((100, 2000), (1000, 20_000))
        ),
    ):
        module = parse_module(text)
        times = [
            (_seconds(lambda: memory_analysis(module)), _seconds(lambda: parse_module(text)))  # noqa: B023
            for _ in range(max(2, rounds // 2))
        ]
        budget = 5.0 if what.startswith("synthetic") else None
        yield _times(f"memory ÷ parse, {what}", min(our for our, _ in times), min(their for _, their in times), budget)


def fuse(rounds: int) -> Iterator[Measured]:
    """Time to find what is fused, and what everything costs, as a multiple of the time to read the module."""
    from hlo_cli.analysis.cost.cost_analysis import cost_analysis
    from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
    from hlo_cli.analysis.fusion.kernels import fusions_of, kernels_of

    for size in (4, 40):
        text = _large(size)
        module = parse_module(text)

        def work(module: Module = module) -> object:
            costs = cost_analysis(module)
            return fusions_of(module, costs=costs), kernels_of(module), list(verify_fusions(module))

        times = [(_seconds(work), _seconds(lambda: parse_module(text))) for _ in range(max(2, rounds // 2))]  # noqa: B023
        yield _times(f"fuse ÷ parse, synthetic, {size} MB", min(o for o, _ in times), min(t for _, t in times), 6.0)


def what_if(rounds: int) -> Iterator[Measured]:
    """Time to take all fusions apart and to fuse anew, as a multiple of the time to read the module."""
    from hlo_cli.analysis.fusion.cpu_rules import FusionRules
    from hlo_cli.transform.fusion.by_request import unfuse
    from hlo_cli.transform.fusion.cpu_fusion import fuse

    several = FusionRules(may_duplicate=False, multi_output=True)
    for size in (4, 40):
        text = _large(size)
        module = parse_module(text)
        apart = unfuse(module)
        for what, work, budget in (
            ("unfuse", partial(unfuse, module), 8.0),
            ("fuse again", partial(fuse, apart), 20.0),
            ("fuse with several results", partial(fuse, apart, several), None),
        ):
            times = [(_seconds(work), _seconds(partial(parse_module, text))) for _ in range(max(2, rounds // 2))]
            ours, theirs = min(our for our, _ in times), min(their for _, their in times)
            yield _times(f"{what} ÷ parse, synthetic, {size} MB", ours, theirs, budget)


def gpu_fusion(rounds: int) -> Iterator[Measured]:
    """Both fusion passes of XLA:GPU over 20,000 instructions: processor time against 10 s, and an instruction's growth."""
    from hlo_cli.transform.fusion.gpu_fusion import gpu_fuse

    small, large = (parse_module(gpu_module(count)) for count in (5_000, 20_000))
    seconds = min(_seconds(lambda: gpu_fuse(large, "h100")) for _ in range(max(1, rounds // 2)))
    yield _times("fuse for h100, 20,000 instructions, ÷ 10 s", seconds, 10.0, 1.0)
    before = min(_seconds(lambda: gpu_fuse(small, "h100")) for _ in range(max(1, rounds // 2)))
    rates = seconds / large.instruction_count, before / small.instruction_count
    yield _times("fuse for h100, an instruction, 20,000 ÷ 5,000", *rates, 1.5)


def reorder(rounds: int) -> Iterator[Measured]:
    """Goal time to reorder grows from 60,000 to 120,000 instructions, in processor time; twice is linear.

    Smaller modules are given more tries, so that growth from them would tell of those.
    """
    from hlo_cli.transform.reorder import Goal
    from hlo_cli.transform.reorder import reorder as reordered

    goals: tuple[Goal, ...] = ("memory", "latency", "dfs", "bfs", "postorder")
    small, large = (parse_module(_transfers(count)) for count in (60_000, 120_000))
    for how in goals:
        times = [
            (_seconds(lambda: reordered(large, how)), _seconds(lambda: reordered(small, how)))  # noqa: B023
            for _ in range(max(1, rounds // 4))
        ]
        yield _times(f"reorder {how}, 120,000 ÷ 60,000", min(o for o, _ in times), min(t for _, t in times), 3.0)


def start(rounds: int) -> Iterator[Measured]:
    """Time of the answers that must come at once, and what is imported for them."""
    for arguments, budget in (("--version", 5.0), ("--help", 5.0)):
        ours, theirs = [], []
        for _ in range(max(15, rounds)):
            ours.append(_wall([*_hlo(), arguments]))
            theirs.append(_wall([sys.executable, "-c", "pass"]))
        yield _times(f"hlo {arguments}", median(ours), median(theirs), budget)
        modules = _imported(arguments)
        heavy = sorted({"numpy", "rich", "pyparsing", "click"} & modules)
        yield Measured(f"hlo {arguments}: heavy imports", ", ".join(heavy) or "none", "none", float(len(heavy)), 0.0)
        yield Measured(f"hlo {arguments}: modules", str(len(modules)), str(len(_imported(None))))


def loading(rounds: int) -> Iterator[Measured]:
    """Processor time of whole commands on a shape and on a dump of 60 kB: most of it goes into what they load."""
    bare = [sys.executable, "-c", "pass"]
    dump = str(FIXTURES / DUMPS[1])
    for arguments, budget in (
        (("layout", "f32[8,128]"), 4.5),
        (("tile-index", "f32[8,128]", "3,5"), 4.5),
        (("parse", dump), 12.0),
        (("layout", dump), 14.0),
        (("memspace", dump), 18.0),
        (("schedule", dump), 16.0),
        (("fuse", dump), 16.0),
        (("lint", dump), 24.0),
        (("report", dump), 24.0),
    ):
        command = [*_hlo(), *arguments]
        _processor(command)  # what Python compiles once is not counted
        times = [(_processor(command), _processor(bare)) for _ in range(max(15, rounds))]
        ours, theirs = (median(each) for each in zip(*times, strict=True))
        what = " ".join("60 kB" if each == dump else each for each in arguments)
        yield _times(f"loading, hlo {what}", ours, theirs, budget)


def commands(rounds: int) -> Iterator[Measured]:
    """Seconds that a command takes on a dump of 4 MB beyond what it takes on next to nothing."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.txt"), Path(folder, "small.txt")
        large.write_text(_large(4), encoding="utf-8")
        small.write_text("HloModule m\n\nENTRY %e {\n  ROOT %p = f32[2]{0} parameter(0)\n}\n", encoding="utf-8")
        for command in (
            *(("parse",), ("parse", "--tree"), ("layout",), ("layout", "--format", "json"), ("memspace",)),
            *(("fuse",), ("fuse", "--cost"), ("fuse", "--dots")),
            *(("fuse", "--run-pass"), ("fuse", "--unfuse", "all"), ("fuse", "--unfuse", "all", "--run-pass")),
        ):
            if _code([*_hlo(), *command, str(small)]) > 1:
                yield Measured(f"hlo {' '.join(command)}", "does not run", "")
                continue
            ours, theirs = [], []
            for _ in range(max(3, rounds)):
                ours.append(_wall([*_hlo(), *command, str(large)]))
                theirs.append(_wall([*_hlo(), *command, str(small)]))
            more = min(ours) - min(theirs)
            yield Measured(f"hlo {' '.join(command)}, 4 MB", f"{min(ours):.2f} s", f"{min(theirs):.2f} s", more, 1.0)


def addresses(rounds: int) -> Iterator[Measured]:
    """Whole maps against `numpy.arange` of as many numbers, look-ups against an addition of the same arrays."""
    import numpy as np

    import hlo_cli

    count = 1 << 24
    plane = hlo_cli.parse_shape("bf16[4096,4096]{1,0:T(8,128)(2,1)}")
    line = hlo_cli.parse_shape("bf16[16777216]{0:T(1024)(128)(2,1)}")
    asked = np.random.default_rng(1).integers(0, 4096, (10_000_000, 2))
    for what, ours, theirs, budget in (
        ("address map, 16 M elements", lambda: hlo_cli.address_map(plane), lambda: np.arange(count), 1.5),
        ("address map, one dimension", lambda: hlo_cli.address_map(line), lambda: hlo_cli.address_map(plane), 1.2),
        ("inverse map, 16 M elements", lambda: hlo_cli.inverse_map(plane), lambda: np.arange(count), 2.5),
        ("look-ups, 10 M", lambda: hlo_cli.linear_index(plane, asked), lambda: asked[:, 0] + asked[:, 1], 4.0),
    ):
        times = [(_seconds(ours), _seconds(theirs)) for _ in range(max(5, rounds))]
        yield _times(what, min(our for our, _ in times), min(their for _, their in times), budget)


def pages(rounds: int) -> Iterator[Measured]:
    """Pages of large dumps: seconds to write, megabytes, and milliseconds to draw, against the budgets of pages."""
    return (Measured(*row) for row in page_rows(_hlo()))


def evaluate(rounds: int) -> Iterator[Measured]:
    """The evaluator on one thread against XLA:CPU or numpy, in processor time; some rows have budgets in seconds."""
    return (Measured(*row) for row in evaluate_rows(rounds))


SECTIONS: dict[str, Callable[[int], Iterator[Measured]]] = {
    "parse": parse,
    "protos": protos,
    "values": values,
    "growth": growth,
    "fusing": fusing,
    "growing": growing,
    "memory": memory,
    "analyses": analyses,
    "fuse": fuse,
    "what_if": what_if,
    "gpu_fusion": gpu_fusion,
    "reorder": reorder,
    "start": start,
    "loading": loading,
    "commands": commands,
    "addresses": addresses,
    "pages": pages,
    "evaluate": evaluate,
}

# Both read the text and a small module first, so that what is loaded once is not counted.
_RESIDENT = """
import gc, sys
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
text = open(sys.argv[1], encoding="utf-8").read()
{read}
tiny = read("HloModule m  ENTRY e {{ ROOT p = f32[2] parameter(0) }}")
gc.collect()
before = resident()
module = read(text)
print((resident() - before) * __import__("resource").getpagesize())
sys.stdout.flush()
__import__("os")._exit(0)
"""
OUR_READER = _RESIDENT.format(read="from hlo_cli.syntax.text.parser import parse_module as read")
THEIR_READER = _RESIDENT.format(read="from jaxlib._hlo import hlo_module_from_text as read")


@cache
def _large(megabytes: int) -> str:
    return synthetic(megabytes)


def _transfers(count: int) -> str:
    """A module of about so many instructions: copies in flight beside sums of what came before."""
    random, lines, there = Random(1), ["  p = f32[256]{0} parameter(0)"], ["p"]
    for n in range(count // 3):
        lines.append(f"  s{n} = (f32[256]{{0}}, f32[256]{{0}}, u32[]) copy-start({random.choice(there[-40:])})")
        lines.append(f"  d{n} = f32[256]{{0}} copy-done(s{n})")
        lines.append(f"  v{n} = f32[256]{{0}} add(d{n}, {random.choice(there[-60:])})")
        there.append(f"v{n}")
    lines.append(f"  ROOT r = f32[256]{{0}} negate({there[-1]})")
    return "\n".join(("HloModule transfers, is_scheduled=true\n", "ENTRY e {", *lines, "}\n"))


def _race(
    what: str, text: str, rounds: int, read: Callable[[str], object] = parse_module, budget: float = 0.5
) -> Measured:
    """Our reader against XLA's on one text, the best of several rounds each, taking turns."""
    from jaxlib._hlo import hlo_module_from_text

    size = f", {len(text) / 1e3:,.0f} kB" if len(text) < 1e6 else ""
    return _faster(what + size, lambda: read(text), lambda: hlo_module_from_text(text), rounds, budget)


def _faster(
    what: str, our_work: Callable[[], object], their_work: Callable[[], object], rounds: int, budget: float | None
) -> Measured:
    """The best of several rounds each, taking turns."""
    times = [(_seconds(our_work), _seconds(their_work)) for _ in range(rounds)]
    return _times(what, min(our for our, _ in times), min(their for _, their in times), budget)


def _times(what: str, ours: float, theirs: float, budget: float | None) -> Measured:
    return Measured(what, f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms", ours / theirs, budget)


def _seconds(work: Callable[[], object]) -> float:
    """Processor time; what is made is thrown away after the clock has stopped."""
    gc.collect()
    started = time.process_time()
    made = work()
    seconds = time.process_time() - started
    del made
    return seconds


def _wall(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def _processor(command: Sequence[str]) -> float:
    """Processor time of a process from its start to its end, in seconds; what Python compiles is kept, as usual."""
    nothing = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = os.posix_spawn(command[0], list(command), environment, file_actions=nothing)
    used = os.wait4(process, 0)[2]
    return used.ru_utime + used.ru_stime


def _code(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False, capture_output=True).returncode


def _resident(reader: str, path: Path) -> int:
    done = subprocess.run([sys.executable, "-c", reader, str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout)


def _imported(argument: str | None) -> set[str]:
    """The modules that `hlo ARGUMENT` ends with, or Python alone."""
    run = f"from hlo_cli.cli import main; main([{argument!r}], standalone=False); " if argument else ""
    script = f"{run}import sys; print('modules:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("modules:")[2].split())


@cache
def _hlo() -> tuple[str, ...]:
    """`hlo` as installed beside this Python, or the package run as a module."""
    script = Path(sys.executable).with_name("hlo")
    return (str(script),) if script.exists() else (sys.executable, "-m", "hlo_cli")


def show(rows: Iterator[Measured]) -> bool:
    """Print rows as they come; whether all budgets are kept."""
    kept = True
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        budget = "" if row.budget is None else f"{row.budget:g}"
        print(
            f"{row.what:<44} {row.ours:>14} {row.theirs:>12} {ratio:>7} {budget:>7}  {row.verdict}".rstrip(), flush=True
        )
        kept = kept and not row.over
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the sections asked for; 1 if a budget is not kept and that was to be checked."""
    parser = argparse.ArgumentParser(description="Measures speed and memory against jaxlib.")
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all but growing if none is given"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a budget is not kept")
    parser.add_argument("--rounds", type=int, default=5, help="how often each time is taken")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.sections) - SECTIONS.keys():
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    print(f"{'':<44} {'ours':>14} {'theirs':>12} {'ratio':>7} {'budget':>7}")
    kept = True
    for name in chosen.sections or (name for name in SECTIONS if name != "growing"):
        kept = show(SECTIONS[name](chosen.rounds)) and kept
    return int(chosen.check and not kept)


if __name__ == "__main__":
    sys.exit(main())
