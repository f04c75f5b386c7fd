"""What does a printed table say that is not HLO? Times, costs, autotuning results, thunks, and what JAX prints.

The forms are those of nsys, of XProf's hlo_stats, and of the printers of XLA and JAX, as the sections name them.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Final, NamedTuple

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.gpu_devices import gpu_devices
from hlo_cli.commands.prints.shape_text import bytes_of_shape
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir import opcodes
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_rate, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table, rows_from, rows_from_tuples
from hlo_cli.report.text import Passage

_MOST_NAMED: Final = 3  # the answer is one line
_LARGEST: Final = 1e30
"""Larger numbers are not measured: the text is damaged."""


# --- cost analysis ---

_TOKEN: Final = lazy_regex(r"(?:'([^'\n]*)'|\"([^\"\n]*)\")(?:\s*(:)\s*(-?\d[\d.]*(?:[eE][+-]?\d{1,18})?)?)?|[{}]")
_COST_KEY: Final = lazy_regex(
    r"flops|transcendentals|optimal_seconds|(?:bytes accessed|utilization)(?: ?(?:operand )? ?\d*| ?out(?:put)?)"
    r"(?: ?\{[\d, ]*\})?"
)
"""Keys of HloCostAnalysis (hlo_cost_analysis.cc); older: `bytes accessed operand 0 {}`."""
_FEWEST_COSTS: Final = 2
"""A program has at least flops or transcendentals besides its bytes, or the bytes of an operand or a result."""


def cost_analysis_report(pasted: PastedText) -> Report | None:
    """The report on the numbers of `cost_analysis()`; None if it has none of its numbers."""
    dicts = _cost_dicts(pasted.text)
    if not dicts:
        return None
    costs = max(dicts, key=lambda each: each.get("flops", 0))
    flops, moved = costs.get("flops"), costs.get("bytes accessed")
    is_unknown = flops is not None and flops < 0  # HloCostAnalysis has -1 for a custom call
    flops = None if is_unknown else flops
    words = ["unknown flop (−1: a custom call)"] if is_unknown else []
    words += [_flop_words(flops)] if flops is not None else []
    words += [f"{format_bytes(round(moved))} accessed"] if moved is not None else []
    intensity = flops / moved if flops is not None and moved else None
    words += (
        [f"{intensity:,.0f} flop per byte" if intensity >= 1 else f"{intensity:.2g} flop per byte"] if intensity else []
    )
    means = []
    numbers: dict[str, Cell] = {"flops": flops, "bytes_accessed": moved, "intensity": intensity}
    if pasted.chip and flops is not None and moved is not None:
        sentence, more = _roofline(flops, moved, pasted.chip)
        means.append(sentence)
        numbers |= more

    columns = (
        Column("cost", "cost", of=lambda key, value: key),
        Column("value", "value", "number", of=lambda key, value: value),
    )
    rows = rows_from_tuples(columns, sorted(costs.items(), key=lambda each: -each[1]))
    advice = (
        () if pasted.chip else ("With a chip, such as `hlo fuse FILE --chip v5e`, the times at the peak rates follow.",)
    )
    return text_report(
        pasted,
        f"Cost analysis: {', '.join(words)}",
        means=means,
        tables=(Table("program_costs", columns, rows, noun="costs", sorted_by=""),),
        advice=(
            *advice,
            "These are costs of the whole program: `hlo fuse` on compiled.as_text() lists them by kernel.",
        ),
        numbers=numbers,
        notes=[f"the text has {len(dicts)} cost analyses; this is the largest"] if len(dicts) > 1 else [],
        next=("hlo help cost",),
    )


def _cost_dicts(text: str) -> list[dict[str, float]]:
    """The cost analyses in a text: dictionaries with keys of XLA's, at least one besides flops, and no other keys.

    >>> _cost_dicts("[{'flops': 8.0, 'bytes accessed': 4.0}, {'flops': 9.0, 'layers': 2}, {'flops': 7.0}]")
    [{'flops': 8.0, 'bytes accessed': 4.0}]
    """
    found, opened = list[dict[str, float]](), [dict[str, float | None]()]
    closed = list[dict[str, float | None]]()
    for match in _TOKEN.finditer(text):
        if match[0] == "{":
            opened.append({})
        elif match[0] == "}":
            closed.append(opened.pop() if len(opened) > 1 else opened[0])
            opened[0] = {} if len(opened) == 1 else opened[0]
        elif match[3]:
            key = match[1] if match[1] is not None else match[2]
            opened[-1][key] = _number(match[4]) if match[4] else None
    for each in (*closed, *reversed(opened)):
        costs = {key: value for key, value in each.items() if value is not None}
        is_whole = bool(costs) and len(costs) == len(each) and all(_COST_KEY.fullmatch(key) for key in costs)
        if is_whole and len(costs) >= _FEWEST_COSTS and set(costs) - {"flops", "optimal_seconds"}:
            found.append(costs)
    return found


def _flop_words(flops: float) -> str:
    """A number of operations with a decimal prefix.

    >>> _flop_words(26507964416), _flop_words(12)
    ('26.5 Gflop', '12 flop')
    """
    return format_rate(flops, "flop").removesuffix("/s")


def _roofline(flops: float, moved: float, chip: str) -> tuple[str, dict[str, Cell]]:
    """The times of the work at a chip's peak rates, and which of them is longer."""
    spec = chip_spec(chip)
    rate = spec.flops_of("bf16")
    memory = moved / spec.memory.per_second
    if rate is None:
        return f"On {spec.chip}, memory traffic takes at least {format_seconds(memory)}.", {"memory_seconds": memory}
    compute = flops / rate.per_second
    bound = "compute" if compute >= memory else "memory"
    ridge = rate.per_second / spec.memory.per_second
    sentence = (
        f"On {spec.chip}, at the peak rates of bf16: compute {format_seconds(compute)}, "
        f"memory {format_seconds(memory)}, so it is "
        f"bound by {bound} (the roofline bends at {ridge:,.0f} flop per byte)."
    )
    return sentence, {"compute_seconds": compute, "memory_seconds": memory, "bound": bound}


# --- autotuning results ---

_RESULT: Final = lazy_regex(r"^[ \t]*results:?\s*\{", re.MULTILINE)
_DEVICE: Final = lazy_regex(r"\bdevice: \"((?:[^\"\\]|\\.)*)\"")
_HLO: Final = lazy_regex(r"\bhlo: \"((?:[^\"\\]|\\.)*)\"")
_TIME: Final = lazy_regex(r"run_time:?\s*\{([^{}]*)\}")
_FIELD: Final = lazy_regex(r"(\w+): (-?\d{1,18})")
_CHOICE: Final = lazy_regex(
    r"\b(triton|gemm|conv|cuda_conv_plan|algorithm|other|cudnn|custom_kernel_fusion|backend"
    r"|hipblaslt_gemm):?\s*\{([^{}]*)"
)
_DOT: Final = lazy_regex(r"= \w+\[([\d,]*)\]\S* dot\((?:[^()]*)\)(?:[^\n]*?lhs_contracting_dims=\{([\d,]*)\})?")
_NAMED_SHAPE: Final = lazy_regex(r"%?([\w.\-]+) = (\w+\[[\d,]*\])")
_DOT_OPERANDS: Final = lazy_regex(r"dot\((?:\w+\[[\d,]*\]\S* )?%?([\w.\-]+), (?:\w+\[[\d,]*\]\S* )?%?([\w.\-]+)\)")
_TARGET: Final = lazy_regex(r"custom_call_target=\\?\"([^\"\\]+)")
_CORES: Final = lazy_regex(r"Cores: (\d{1,18})[^\"]*?Memory bandwidth: (\d{1,18}) GB/s")
_PROVIDERS: Final = {
    "triton": "Triton",
    "gemm": "cuBLAS",
    "hipblaslt_gemm": "hipBLASLt",
    "cudnn": "cuDNN",
    "conv": "cuDNN",
    "algorithm": "cuDNN",
    "cuda_conv_plan": "cuDNN",
    "custom_kernel_fusion": "a custom kernel",
}
_WHOLE: Final = 1e13
"""Rates from here on are rounded to whole Tflop/s; a small dot has a part of one."""
_TUNED: Final = (
    Column("operation", "operation", of=lambda result: result.operation),
    Column("provider", "provider", of=lambda result: result.provider),
    Column("config", "config", of=lambda result: result.config or None),
    Column("seconds", "time", "seconds", of=lambda result: result.seconds),
    Column("rate", "rate", "flop/second", of=lambda result: result.rate),
)


@dataclass(frozen=True, slots=True)
class _Tuned:
    """One result: the operation, who computes it, with which settings, how long it takes, and at which rate."""

    operation: str
    provider: str
    config: str
    seconds: float | None
    rate: float | None

    @property
    def words(self) -> str:
        """The result as a clause."""
        config = f", tiles {self.config}" if self.provider == "Triton" and self.config else ""
        time = f", {format_seconds(self.seconds)}" if self.seconds is not None else ""
        rate = f" ({self.rate / 1e12:,.{0 if self.rate >= _WHOLE else 2}f} Tflop/s)" if self.rate else ""
        return f"the {self.operation} by {self.provider}{config}{time}{rate}"


def autotuning_report(pasted: PastedText) -> Report | None:
    """The report on the times of autotuning; None if it has none of its numbers."""
    text = pasted.text
    starts = [match.start() for match in _RESULT.finditer(text)]
    blocks = [text[at:end] for at, end in pairwise([*starts, len(text)])]
    if not blocks:
        if "version: 3" not in text:
            return None
        return text_report(
            pasted,
            "Autotuning results without entries",
            means=("XLA writes only the version if autotuning was off, or if all results came from the cache.",),
        )
    found = [_tuned(block) for block in blocks]
    device = _device(text)
    listed = "; ".join(each.words for each in found[:2])
    more = f"; and {len(found) - 2:,} more" if len(found) > 2 else ""
    rows = rows_from(_TUNED, found)
    return text_report(
        pasted,
        f"{format_count(len(found), 'autotuning results')}{f' on {device}' if device else ''}: {listed}{more}",
        means=("XLA tried each configuration while compiling and kept the fastest.",),
        tables=(Table("autotuning_results", _TUNED, rows, noun="results"),),
        numbers={"results": len(found), "device": device or None},
    )


def _device(text: str) -> str:
    """The chip of the results, by its cores and memory bandwidth; its description if no known chip has them."""
    match, described = _CORES.search(text), _DEVICE.search(text)
    if match is not None:
        cores, bandwidth = int(match[1]), int(match[2]) * 10**9
        for name, device in gpu_devices().items():
            # The text has whole GB/s.
            if device.core_count == cores and abs(device.memory_bandwidth - bandwidth) < 10**9:
                return f"{'an' if name[0] in 'aeh' else 'a'} {name.upper()}"
    return described[1].split(",")[0] if described else ""


def _tuned(block: str) -> _Tuned:
    hlo_match, time = _HLO.search(block), _TIME.search(block)
    hlo = hlo_match[1].replace("\\n", "\n").replace('\\"', '"') if hlo_match else ""
    rest = block.replace(hlo_match[0], "") if hlo_match else block
    choice = _CHOICE.search(_DEVICE.sub("", rest))
    fields = {match[1]: int(match[2]) for match in _FIELD.finditer(choice[2])} if choice else {}
    times = {match[1]: int(match[2]) for match in _FIELD.finditer(time[1])} if time else {}
    seconds = times.get("seconds", 0) + times.get("nanos", 0) * 1e-9 if times else None
    operation, flops = _operation(hlo)
    provider = _PROVIDERS.get(choice[1], choice[1]) if choice else "an unknown provider"
    tiles = [fields[name] for name in ("block_m", "block_n", "block_k") if name in fields]
    config = " × ".join(str(each) for each in tiles)
    if not tiles and fields:
        config = ", ".join(f"{name} {value}" for name, value in fields.items())
    return _Tuned(operation, provider, config, seconds, flops / seconds if flops and seconds else None)


def _operation(hlo: str) -> tuple[str, int | None]:
    """What a result is about, and its number of operations if that follows from a dot."""
    dot, operands = _DOT.search(hlo), _DOT_OPERANDS.search(hlo)
    if dot is None or operands is None:
        target = _TARGET.search(hlo)
        if target is not None:
            name = target[1].removeprefix("__").replace("$", " ")
            name = name.replace("cublas", "cuBLAS").replace("cudnn", "cuDNN")
            return name, None
        return opcodes.FUSION, None
    shapes = {match[1]: match[2] for match in _NAMED_SHAPE.finditer(hlo)}
    result = [int(size) for size in dot[1].split(",") if size]
    lhs = shapes.get(operands[1], "")
    sizes = [int(size) for size in lhs[lhs.find("[") + 1 : -1].split(",") if size] if "[" in lhs else []
    contracted = [int(at) for at in (dot[2] or "").split(",") if at]
    if not sizes or any(at >= len(sizes) for at in contracted):
        return f"dot {' × '.join(map(str, result))}", None
    inner = prod(sizes[at] for at in contracted)
    flops = 2 * prod(result) * inner
    return f"dot {' × '.join(map(str, [*result, inner]))}", flops if flops < _LARGEST else None


# --- thunks ---

_THUNK: Final = lazy_regex(
    r"^(?P<indent> *)(?P<id>\d{3,}): k(?P<kind>[A-Z]\w+)[ \t]*(?:\[(?P<links>[^\]\n]*)\])?[ \t]*(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_PREVIOUS: Final = lazy_regex(r"prev=([\d, ]+)")
_KERNEL: Final = lazy_regex(r"kernel = ([\w.\-$]+)")
_WORD: Final = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_LISTED_THUNKS: Final = (
    Column("thunk", "thunk", "name", of=lambda thunk: thunk.number),
    Column("kind", "kind", of=lambda thunk: thunk.kind),
    Column("after", "after", of=lambda thunk: thunk.after),
    Column("name", "name", "name", role="name", of=lambda thunk: thunk.name),
)


class _Thunk(NamedTuple):
    """A thunk: its number, its kind, the numbers of those before it, and what it runs."""

    number: str
    kind: str
    after: str | None
    name: str | None


def thunk_report(pasted: PastedText) -> Report | None:
    """The report on a thunk sequence; None if it has none of its numbers."""
    thunks = list[_Thunk]()
    nested = 0
    for match in _THUNK.finditer(pasted.text):
        previous = _PREVIOUS.search(match["links"] or "")
        before = ", ".join(previous[1].replace(",", " ").split()) if previous else None
        nested += bool(match["indent"])
        thunks.append(_Thunk(match["id"], _kind(match["kind"]), before, _thunk_name(match["rest"])))
    if not thunks:
        return None
    words = [f"{each.kind} {each.name}" if each.kind == "kernel" and each.name else each.kind for each in thunks]
    listed = ", ".join(words) if len(words) <= _MOST_THUNKS else _counted(each.kind for each in thunks)
    chains = [f"{each.number} after {each.after}" for each in thunks if each.after]
    order = "; ".join(chains[:8]) + ("; …" if len(chains) > 8 else "")
    depends = f"Order: {order}. Thunks without an order may run at the same time."
    inside = f" ({nested:,} inside others)" if nested else ""
    return text_report(
        pasted,
        f"Thunk sequence of {format_count(len(thunks), 'thunks')}{inside}: {listed}",
        means=(
            "A thunk is one step that the runtime executes: a kernel, a library call, a copy, or a collective.",
            *((depends,) if chains else ()),
        ),
        tables=(Table("thunks", _LISTED_THUNKS, rows_from(_LISTED_THUNKS, thunks), noun="thunks"),),
        advice=("The dump of the same program has the instructions: `hlo fuse DUMP` lists its kernels.",),
        numbers={"thunks": len(thunks), "kernels": sum(each.kind == "kernel" for each in thunks)},
    )


_MOST_THUNKS: Final = 6  # more are counted by kind instead of listed


def _kind(kind: str) -> str:
    """The kind of a thunk in words.

    >>> _kind("AllReduceStart"), _kind("Gemm"), _kind("CustomCall")
    ('all-reduce-start', 'gemm', 'custom-call')
    """
    return "-".join(_WORD.sub(" ", kind).lower().split())


def _thunk_name(rest: str) -> str | None:
    if (kernel := _KERNEL.search(rest)) is not None:
        return kernel[1]
    word = rest.strip(" ,").split(" ")[0]
    return word if word and not word.startswith("(") else None


def _counted(kinds: Iterator[str]) -> str:
    counts = Counter(kinds).most_common(_MOST_THUNKS)
    return ", ".join(f"{count} {kind}" for kind, count in counts)


# --- measured times ---

_PROFILED: Final = lazy_regex(
    r"(?P<cycles>\d{1,18}) cycles \( *(?P<share>\d{1,3}(?:\.\d{1,9})?)%[^)\n]*\)\s*:: "
    r"+(?P<us>\d{1,15}(?:\.\d{1,9})?) usec(?: \( "
    r"*(?P<best>(?:\d{1,15}(?:\.\d{1,9})?)?)[^)\n]*\))?"
    r"(?P<rates>[^\n%]*)(?:%|:: )(?P<name>[\w.\-]+)"
)
_BANDWIDTH: Final = lazy_regex(r"(\d{1,15}(?:\.\d{1,9})?)\s?(B|KiB|MiB|GiB|TiB)/s")
_PROFILE_COLUMNS: Final = (
    Column("seconds", "measured", "seconds", of=lambda line: line.seconds),
    Column("optimal_seconds", "possible", "seconds", like="seconds", of=lambda line: line.optimal_seconds),
    Column("share", "share", "percent", of=lambda line: line.share),
    Column("rate", "memory traffic", of=lambda line: line.rate),
    Column("instruction", "instruction", "name", role="name", of=lambda line: line.name),
)


class _ProfileLine(NamedTuple):
    """The measured time of an instruction, the time of the cost model, its share, and its memory traffic in words."""

    seconds: float
    optimal_seconds: float | None
    share: float
    rate: str | None
    name: str


def execution_profile_report(pasted: PastedText) -> Report | None:
    """The report on an execution profile of XLA; None if it has none of its numbers."""
    lines = list[_ProfileLine]()
    for match in _PROFILED.finditer(pasted.text):
        best = float(match["best"]) * 1e-6 if (match["best"] or "").strip(".") else None
        rate = _BANDWIDTH.search(match["rates"])
        digits = f"{float(rate[1]):,.0f}" if rate and float(rate[1]) >= 100 else f"{float(rate[1]):.3g}" if rate else ""
        words = f"{digits} {rate[2]}/s" if rate else None
        lines.append(_ProfileLine(float(match["us"]) * 1e-6, best, float(match["share"]) / 100, words, match["name"]))
    if not lines:
        return None
    lines.sort(key=lambda line: -line.seconds)
    first = lines[0]
    possible = f", {format_seconds(first.optimal_seconds)} possible" if first.optimal_seconds is not None else ""
    rate_words = f", {first.rate}" if first.rate else ""
    count = "" if len(lines) == 1 else f"{format_count(len(lines), 'instructions')}, the longest "
    return text_report(
        pasted,
        f"Execution profile: {count}{first.name}: {format_seconds(first.seconds)} measured{possible}{rate_words}",
        means=("TensorFlow printed this until 2022 (xla_hlo_profile); possible is the time of its cost model.",),
        tables=(Table("measured_times", _PROFILE_COLUMNS, rows_from(_PROFILE_COLUMNS, lines), noun="instructions"),),
        numbers={"instructions": len(lines), "seconds": first.seconds, "optimal_seconds": first.optimal_seconds},
    )


_UNIT: Final = {"nsec": 1e-9, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "ps": 1e-12}
_UNIT_IN: Final = lazy_regex(r"\(\s*(nsec|ns|us|µs|ms|s|ps)\s*\)|_(ns|us|ms|ps)$|(Ns)$")
_TIMES: Final = (
    Column("total_seconds", "total", "seconds", total="sum", of=lambda each: each.total),
    Column("count", "runs", "count", of=lambda each: each.count or None),
    Column("mean_seconds", "mean", "seconds", of=lambda each: each.mean),
    Column("name", "name", "name", role="name", of=lambda each: each.name),
)


@dataclass(frozen=True, slots=True)
class _Timed:
    """A row of a table of times."""

    name: str
    total: float
    count: int

    @property
    def mean(self) -> float:
        """The time of one run."""
        return self.total / self.count if self.count else self.total


def kernel_times_report(pasted: PastedText) -> Report | None:
    """The report on a table of kernels; None if it has none of its numbers."""
    found = list(
        _timed(
            _cells(_kernel_section(pasted.text)),
            ("total time", "totaldurationns", "duration (nsec"),
            ("instances", "calls", "count"),
        )
    )
    return _times_report(pasted, found, "kernels", "kernel") if found else _api_calls(pasted)


def _api_calls(pasted: PastedText) -> Report | None:
    """The report on calls of the CUDA or the operating system's API, which are the host's; None if it has none."""
    if not _OTHER_SECTION.search(pasted.text):
        return None
    found = list(_timed(_cells(pasted.text), ("total time",), ("num calls", "calls")))
    if not found:
        return None
    report = _times_report(pasted, found, "functions", "function")
    total = sum(each.total for each in found)
    waits = sum(each.total for each in found if "ynchronize" in each.name or each.name in _HOST_WAITS)
    share = f" {format_percent(waits / total)}% of the time are synchronizations." if waits and total else ""
    means = f"These are calls of the host, not kernels: a synchronization lasts until the device is done.{share}"
    return replace(report, parts=(Passage("text", (means,)), *report.parts))


_HOST_WAITS: Final = ("poll", "sem_wait", "sem_timedwait", "pthread_cond_wait", "pthread_cond_timedwait", "epoll_wait")
"""Functions of the operating system in which a thread waits (osrt_sum of Nsight Systems)."""
_SECTION: Final = lazy_regex(r"^[ \t]*\*\* ([^\n]{1,200}?)(?: \((\w{1,80})\))?:[ \t]*$", re.MULTILINE)
_OTHER_SECTION: Final = lazy_regex(r"^[^\n]*\bNum Calls\b", re.MULTILINE)
"""A head of calls of an API, which are not kernels."""
_AFTER_TABLE: Final = lazy_regex(r"^[ \t]*-{3,}(?:[ \t]+-{3,})+[ \t]*$(?:\n[ \t]*[^\s][^\n]*)*", re.MULTILINE)


def _kernel_section(text: str) -> str:
    """The part of what `nsys stats` prints that is about kernels: copies and calls of the API have tables too."""
    titles = list(_SECTION.finditer(text))
    ends = [*(each.start() for each in titles[1:]), len(text)]
    for title, end in zip(titles, ends, strict=False):
        if "kern" in f"{title[1]} {title[2]}".lower():
            text = text[title.end() : end]
            break
    else:
        if titles and not text[: titles[0].start()].strip():
            return ""
    if _OTHER_SECTION.search(text):
        return ""
    table = _AFTER_TABLE.search(text)
    return text[: table.end()] if table else text


def operation_times_report(pasted: PastedText) -> Report | None:
    """The report on a table of operations; None if it has none of its numbers."""
    times = ("total self time", "self time", "total time", "total_time", "total_self_time", "self_time", "time")
    found = list(_timed(_cells(pasted.text), times, ("occurrences", "count", "calls")))
    return _times_report(pasted, found, "instructions", "instruction") if found else None


# the trees of an operation profile, the best first: without the time in which nothing ran, and by program
_TREES: Final = ("byProgramExcludeIdle", "byProgram", "byCategoryExcludeIdle", "byCategory")
_PICOSECOND: Final = 1e-12  # the unit of `raw_time` (xprof/plugin/xprof/protobuf/op_profile.proto)


def op_profile_report(pasted: PastedText) -> Report | None:
    """The report on an operation profile of XProf as JSON; None if it has no instruction with a time."""
    try:
        document = json.loads(pasted.given or pasted.text)
    except (ValueError, RecursionError):
        return None
    trees = [document.get(name) for name in _TREES] if isinstance(document, dict) else []
    found = next((times for tree in trees if (times := _leaves(tree))), None)
    return _times_report(pasted, list(found.values()), "instructions", "instruction") if found else None


def _leaves(tree: object) -> dict[str, _Timed]:
    """The instructions in a tree of XProf with their times, by name; those of several programs are added."""
    found, waiting = dict[str, _Timed](), [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        children = node.get("children")
        if isinstance(children, list) and children:
            waiting += children
            continue
        metrics, xla = node.get("metrics"), node.get("xla")
        if isinstance(metrics, dict) and isinstance(xla, dict) and (time := _number(str(metrics.get("rawTime")))):
            name = str(node.get("name", "")).lstrip("%")
            before = found.get(name, _Timed(name, 0.0, 0))
            runs = int(_number(str(metrics.get("occurrences", 0))) or 0)
            found[name] = _Timed(name, before.total + time * _PICOSECOND, before.count + runs)
    return found


_KERNEL_NAMES: Final = "A kernel has the name of its instruction, with _ for each dot and dash."


def _times_report(pasted: PastedText, found: Sequence[_Timed], noun: str, one: str) -> Report:
    ordered = sorted(found, key=lambda each: -each.total)
    total = sum(each.total for each in ordered)
    listed = ", ".join(
        f"{each.name} {each.count:,} × {format_seconds(each.mean)}"
        if each.count > 1
        else f"{each.name} {format_seconds(each.total)}"
        for each in ordered[:_MOST_NAMED]
    )
    more = f", and {len(ordered) - _MOST_NAMED:,} more" if len(ordered) > _MOST_NAMED else ""
    rows = rows_from(_TIMES, ordered)
    return text_report(
        pasted,
        f"{format_count(len(ordered), noun)}, {format_seconds(total)}: {listed}{more}",
        means=(_KERNEL_NAMES,) if one == "kernel" else (),
        tables=(Table("measured_times", _TIMES, rows, noun=noun),),
        advice=("With the trace itself, `hlo profile TRACE DUMP` joins times and instructions.",),
        numbers={noun: len(ordered), "seconds": total},
        next=("hlo help profiles",),
    )


def _cells(text: str) -> list[list[str]]:
    """The cells of a table: CSV, tabs, or columns of a fixed width below a line of hyphens."""
    lines = [line for line in text.split("\n") if line.strip()]
    rule = next(
        (at for at, line in enumerate(lines) if at and re.fullmatch(r"[ \t]*-{3,}(?:[ \t]+-{3,})+[ \t]*", line)), None
    )
    if rule is not None:
        spans = [match.span() for match in re.finditer(r"-+", lines[rule])]
        head = [lines[rule - 1][start:end].strip() for start, end in _widened(spans, lines[rule - 1])]
        rows = [re.split(r" {2,}|\t", line.strip(), maxsplit=len(spans) - 1) for line in lines[rule + 1 :]]
        return [head, *(row for row in rows if len(row) == len(spans))]
    start = next(
        (
            at
            for at, line in enumerate(lines)
            if ("ime" in line or "DurationNs" in line or "DURATION" in line) and re.search(r"[,\t|]", line)
        ),
        None,
    )
    if start is None:
        return []
    delimiter = max(",\t|;", key=lines[start].count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines[start:], delimiter=delimiter)]
    except csv.Error:
        return []
    return [row for row in rows if len(row) >= len(rows[0])]


def _widened(spans: Sequence[tuple[int, int]], head: str) -> Iterator[tuple[int, int]]:
    """The places of the heads: each column ends where the next begins."""
    for at, (start, _) in enumerate(spans):
        yield start, spans[at + 1][0] if at + 1 < len(spans) else len(head)


def _timed(cells: Sequence[Sequence[str]], times: Sequence[str], counts: Sequence[str]) -> Iterator[_Timed]:
    """The rows of a table that has a name and a total time."""
    if not cells:
        return
    heads = [head.lower().strip('"# ') for head in cells[0]]
    name = _column(heads, ("hlo op name", "hlo_op_name", "name", "kernel name", "operation", "hlo op"))
    time, count = _column(heads, times), _column(heads, counts)
    if name is None or time is None:
        return
    unit = _UNIT_IN.search(cells[0][time].strip('"'))
    factor = _UNIT.get((unit[1] or unit[2] or "ns") if unit else "ns" if "total time" in heads[time] else "us", 1e-9)
    for row in cells[1:]:
        value, runs = _number(row[time]), _number(row[count]) if count is not None else 1
        if value is not None:
            yield _Timed(row[name].strip().lstrip("%"), value * factor, int(runs or 0))


def _column(heads: Sequence[str], names: Sequence[str]) -> int | None:
    """The column with the first of the names: exactly, or at its beginning, and not a share."""
    for name in names:
        for at, head in enumerate(heads):
            if (head == name or head.startswith(name)) and "%" not in head:
                return at
    return None


def _number(cell: str) -> float | None:
    """A number in a text; None for other texts, and for one that no measurement gives."""
    try:
        value = float(cell.replace(",", "").strip('" '))
    except ValueError:
        return None
    return value if abs(value) < _LARGEST else None


# --- the beginning of a module ---

_HEADER: Final = lazy_regex(r"HloModule\s+(?P<name>[^\s,]+)")
_HEADER_SHAPE: Final = lazy_regex(r"\b[a-z]\w*\[[\d,]*\]")
_SIGNATURE: Final = "entry_computation_layout={"


def cut_header_report(pasted: PastedText) -> Report | None:
    """The report on the beginning of a module; None if it has none of its numbers."""
    match = _HEADER.search(pasted.text)
    if match is None:
        return None
    _, found, signature = pasted.text.partition(_SIGNATURE)
    before, arrow, after = signature.partition("->")
    arguments = _HEADER_SHAPE.findall(before) if found else []
    results = _HEADER_SHAPE.findall(after)
    size = sum(bytes_of_shape(shape) or 0 for shape in arguments)
    words = []
    if arguments:
        least = "" if arrow else "at least "
        words.append(f"{least}{format_count(len(arguments), 'arguments')} ({format_bytes(size)})")
    if results:
        words.append(f"first result {results[0]}")
    columns = (
        Column("kind", "kind", of=lambda kind, shape: kind),
        Column("shape", "shape", "shape", of=lambda kind, shape: shape),
        Column("bytes", "size", "bytes", of=lambda kind, shape: bytes_of_shape(shape)),
    )
    listed = (*(("argument", shape) for shape in arguments), *(("result", shape) for shape in results))
    rows = rows_from_tuples(columns, listed)
    return text_report(
        pasted,
        f"The text ends inside the header of {match['name']}{': ' if words else ''}{', '.join(words)}",
        means=("The rest of the header and all instructions are missing.",),
        tables=(Table("header_shapes", columns, rows, noun="shapes"),) if rows else (),
        advice=(
            (
                "Copy the complete text: a terminal, a log, or a chat cut it. A dump written to a file is whole "
                "(XLA_FLAGS=--xla_dump_to=DIR)."
            ),
        ),
        numbers={"module": match["name"], "arguments": len(arguments), "bytes": size},
        next=("hlo help dump",),
    )


# --- prints of JAX ---

_RESIDUAL: Final = lazy_regex(
    r"^\s*(?P<shape>[a-z]\w*(?:<\w+>)?\[[\d,]*\])(?:\{[^}\n]*\})?\s+(?:(?P<argument>from the argument (?P<name>[^\n]+))"
    r"|(?P<literal>from a (?:literal|constant))|(?:output of (?P<op>(?:jitted function )?\S+)|named "
    r"'(?P<label>[^'\n]+)') "
    r"from (?P<file>[^\s:]+):(?P<line>\d{1,18})[^\n]*)\s*$",
    re.MULTILINE,
)
_SAVED: Final = (
    Column("bytes", "size", "bytes", total="sum", of=lambda value: value.size_bytes),
    Column("shape", "shape", "shape", of=lambda value: value.shape),
    Column("saved_from", "saved from", of=lambda value: value.saved_from),
    Column("source", "source", "source", of=lambda value: value.source),
)


class _SavedValue(NamedTuple):
    """A value that is kept for the backward pass: its size, its shape, what made it, and where."""

    size_bytes: int | None
    shape: str
    saved_from: str
    source: str | None


def residuals_report(pasted: PastedText) -> Report | None:
    """The report on what JAX saves for the backward pass; None if it has none of its numbers."""
    values = list[_SavedValue]()
    kinds = defaultdict[str, int](int)
    places = defaultdict[tuple[str, str], int](int)
    for match in _RESIDUAL.finditer(pasted.text):
        size = bytes_of_shape(match["shape"])
        file = match["file"].rpartition("/")[2] if match["file"] else ""
        source = f"{file}:{match['line']}" if file else None
        if match["argument"]:
            kind, origin = "arguments", f"argument {match['name'].strip()}"
        elif match["literal"]:
            kind, origin = "constants", match["literal"].removeprefix("from a ")
        else:
            kind, origin = "computed", f"output of {match['op']}" if match["op"] else f"named {match['label']}"
            places[file, match["line"]] += size or 0
        kinds[kind] += size or 0
        values.append(_SavedValue(size, match["shape"], origin, source))
    if not values:
        return None
    values.sort(key=lambda value: -(value.size_bytes or 0))
    parts = [f"{kind} {format_bytes(size)}" for kind, size in kinds.items()]
    listed = ", ".join(
        f"{file}:{line} {format_bytes(size)}"
        for (file, line), size in sorted(places.items(), key=lambda each: -each[1])[:4]
    )
    total = sum(kinds.values())
    unknown = sum(value.size_bytes is None for value in values)
    return text_report(
        pasted,
        f"{format_count(len(values), 'saved values')}, {format_bytes(total)}:"
        f" {', '.join(parts)}{f' ({listed})' if listed else ''}",
        means=(
            (
                "These values are kept from the forward pass for the backward pass. Arguments are in memory "
                "anyway; computed "
                "ones are added."
            ),
        ),
        tables=(Table("residuals", _SAVED, rows_from(_SAVED, values), noun="values"),),
        advice=(
            (
                "To keep fewer, use jax.checkpoint with a policy, such as dots_with_no_batch_dims_saveable, "
                "around the layer "
                "that saves the most."
            ),
        ),
        notes=[f"{format_count(unknown, 'values')} of unknown size not counted"] if unknown else [],
        numbers={"values": len(values), "bytes": total, **{f"{kind}_bytes": size for kind, size in kinds.items()}},
    )


_PALLAS: Final = lazy_regex(
    r"(?:The )?(?P<what>kernel jaxpr|Mosaic GPU module|Mosaic module|Triton module|grid mapping|block "
    r"mappings)\S* for (?:pallas_call |the kernel (?:function )?)?"
    r"(?P<name>[\w.<>$\-]+)(?: at (?P<place>[^\s:]+:\d{1,18}))?"
)
_MEMREF: Final = lazy_regex(
    r"%arg\d{1,18}: memref<(?P<sizes>(?:\d{1,18}x)*)(?P<type>[a-z]\w*)(?P<rest>[^<>]*(?:<[^<>]*>[^<>]*)*)>"
)
_SPACE: Final = lazy_regex(r"memory_space<(\w+)>")
_REFERENCE: Final = lazy_regex(r"\b\w+:(?:MemRef|Ref)(?:<(?P<space>\w*)>)?\{(?P<type>\w+)\[(?P<sizes>[\d,]*)\]\}")
_BITS: Final = lazy_regex(r"^[a-z]{1,12}(\d{1,9})")


def pallas_report(pasted: PastedText) -> Report | None:
    """The report on the print of a Pallas kernel; None if it has none of its numbers."""
    found = list(_PALLAS.finditer(pasted.text))
    if not found:
        return None
    names = list(dict.fromkeys(match["name"] for match in found))
    parts = [_PRINTED[what] for what in dict.fromkeys(match["what"] for match in found if match["what"] in _PRINTED)]
    buffers = list(_buffers(pasted.text))
    by_space = Counter((size, space) for size, space, _ in buffers)
    listed = ", ".join(
        f"{f'{count} × ' if count > 1 else ''}{format_bytes(size)} in {space}"
        for (size, space), count in by_space.items()
    )
    place = f" at {found[0]['place']}" if found[0]["place"] else ""

    columns = (
        Column("bytes", "size", "bytes", of=lambda size, space, shape: size),
        Column("space", "space", of=lambda size, space, shape: space),
        Column("shape", "shape", of=lambda size, space, shape: shape),
    )
    rows = rows_from_tuples(columns, buffers)
    subject = f"{'A Pallas kernel' if len(names) == 1 else f'{len(names)} Pallas kernels'} ({' and '.join(parts)})"
    return text_report(
        pasted,
        f"{subject} {', '.join(names[:3])}{place}{f': arguments of {listed}' if listed else ''}",
        means=("pallas_call prints this with debug=True. It is the code of one custom call, not the program.",),
        tables=(Table("kernel_arguments", columns, rows, noun="arguments"),) if rows else (),
        advice=("In a dump the kernel is a custom call: `hlo parse DUMP --where 'opcode == custom-call'` lists it.",),
        numbers={"kernels": len(names), "kernel": names[0], "bytes": sum(size for size, _, _ in buffers)},
    )


_PRINTED: Final = {
    "kernel jaxpr": "jaxpr",
    "Mosaic module": "Mosaic module",
    "Mosaic GPU module": "Mosaic GPU module",
    "Triton module": "Triton module",
}


def _buffers(text: str) -> Iterator[tuple[int, str, str]]:
    """The sizes, memory spaces, and shapes of the arguments of a kernel: of its MLIR, else of its jaxpr."""
    main = text.find("func.func @main(")
    if main >= 0:
        for match in _MEMREF.finditer(text, main, text.find("\n", main) if "\n" in text[main:] else len(text)):
            sizes = [int(size) for size in match["sizes"].split("x") if size]
            space = _SPACE.search(match["rest"])
            yield (
                prod(sizes) * _bits(match["type"]) // 8,
                (space[1] if space else "memory").upper(),
                (f"{match['type']}[{','.join(map(str, sizes))}]"),
            )
        return
    for match in _REFERENCE.finditer(text):
        sizes = [int(size) for size in match["sizes"].split(",") if size]
        name = (match["space"] or "").upper()
        shape = f"{match['type']}[{match['sizes']}]"
        yield prod(sizes) * _bits(match["type"]) // 8, name if name not in ("", "NONE") else "memory", shape


def _bits(name: str) -> int:
    """The bits of an element in memory, by the name of its type in MLIR or JAX.

    >>> [_bits(each) for each in ("bf16", "float8_e4m3fn", "f8E4M3FN", "i1", "bool", "int4")]
    [16, 8, 8, 8, 8, 4]
    """
    match = _BITS.search(name)
    return 8 if name in ("bool", "i1") else int(match[1]) if match else 32


# --- StableHLO in generic form ---

_STABLEHLO: Final = lazy_regex(r"(?<![#!\w.])\"?stablehlo\.(\w+)\"?(?=[ (])")
_REDUCER: Final = lazy_regex(r"\"stablehlo\.(reduce_scatter|all_reduce|reduce|reduce_window)\"\([^)\n]*\)[^\n]*\(\{")
_COLLECTIVE: Final = ("reduce_scatter", "all_reduce")
_REDUCTIONS: Final = {
    opcodes.ADD: "sum",
    "multiply": "product",
    "minimum": "min",
    "maximum": "max",
    "and": "and",
    "or": "or",
}


def stablehlo_report(pasted: PastedText) -> Report | None:
    """The report on operations of StableHLO; None if it has none of its numbers."""
    operations = Counter(name for name in _STABLEHLO.findall(pasted.text) if name != "return")
    if not operations:
        return None
    reducers = list(_reducers(pasted.text))
    for _, inner in reducers:
        operations.subtract(inner)
    counts = [(name.replace("_", "-"), count) for name, count in operations.most_common() if count > 0]
    columns = (
        Column("operation", "operation", of=lambda name, count: name),
        Column("count", "count", "count", of=lambda name, count: count),
    )
    named = [(name, found[0]) for name, inner in reducers if len(found := [e for e in inner if e != "convert"]) == 1]
    found = [f"{'an' if name[0] in 'aeiou' else 'a'} {name.replace('_', '-')} by {inner}" for name, inner in named]
    refused = [(name, inner) for name, inner in named if name in _COLLECTIVE and inner not in _REDUCTIONS]
    listed = ", ".join(found) if found else ", ".join(f"{count} {name}" for name, count in counts[:4])
    words = ""
    if refused:
        words = ", which XLA:GPU does not support (only sum, product, min, max, and, or)"
    return text_report(
        pasted,
        f"StableHLO of {format_count(sum(count for _, count in counts), 'operations')}: {listed}{words}",
        means=(("The text is StableHLO, not HLO; each operation converts to the HLO instruction of its name."),),
        tables=(Table("stablehlo_operations", columns, rows_from_tuples(columns, counts), noun="operations"),),
        advice=(
            (
                "For the HLO of this stage, use lowered.as_text(dialect='hlo'); for optimized HLO, "
                "lowered.compile().as_text()."
            ),
        ),
        numbers={"operations": sum(count for _, count in counts), "defects": len(refused)},
    )


def _reducers(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each operation with a reducer, and the operations of the reducer but for conversions of types."""
    for match in _REDUCER.finditer(text):
        inner = list[str]()
        for each in _STABLEHLO.finditer(text, match.end()):
            if each[1] == "return":
                break
            inner.append(each[1])
        yield match[1], tuple(inner)
