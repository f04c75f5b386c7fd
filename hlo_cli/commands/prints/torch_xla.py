"""What do prints of PyTorch say? Metrics of PyTorch/XLA, `PT_XLA_DEBUG_LEVEL` of each graph, times of torch.profiler.

Mirrors torch_xla/csrc/debug_util.cpp and torch_xla/csrc/runtime/metrics.cc of github.com/pytorch/xla.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, format_percent, format_seconds, verb
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.syntax.compiler_messages.compiler_warnings import seconds_of

_DUMP: Final = (
    "XLA_FLAGS=--xla_dump_to=DIR writes the HLO of each graph; `hlo memspace DIR` shows what is in its memory."
)


# --- graphs ---
# With PT_XLA_DEBUG_LEVEL, a block is printed for each compilation, with its cause and the memory of the graph, and for
# each execution.


_SIZES: Final = {
    "Graph input size": "inputs",
    "Graph output size": "outputs",
    "Aliased Input size": "aliased",
    "Intermediate tensor size": "temporaries",
    "Compiled program size": "program",
}
_SIZE: Final = lazy_regex(rf"Post Compilation Analysis: ({'|'.join(_SIZES)}): (\d{{1,9}}(?:\.\d{{1,9}})?) GB")
_CAUSE: Final = lazy_regex(r"(?<!Post )Compilation Analysis: Compilation Cause\s*\n\s*Compilation Analysis:\s+([^\n]+)")
_EXECUTION: Final = lazy_regex(r"Execution Analysis: Execution Cause\s*\n\s*Execution Analysis:\s+([^\n]+)")
_HASH: Final = lazy_regex(r"(?<!Post )Compilation Analysis:\s+Graph Hash: (\w+)")
_FRAME: Final = lazy_regex(r"(?<!Post )(?:Compilation|Execution) Analysis:\s+(\S[^\n]*) \((/[^\n():]+:\d+)\)")


@dataclass(frozen=True, slots=True)
class _Graph:
    """The memory of one graph in the GB that the print has, by its part."""

    sizes: dict[str, float]

    @property
    def total(self) -> float:
        """What a device needs: an aliased input takes no memory of its own as output."""
        return sum(size for part, size in self.sizes.items() if part != "aliased") - self.sizes.get("aliased", 0.0)


def graphs_report(pasted: PastedText) -> Report | None:
    """The report on the graphs of PT_XLA_DEBUG; None if it has none of its numbers."""
    graphs = list(_graphs_in(pasted.text))
    causes = Counter(found.strip() for found in _CAUSE.findall(pasted.text))
    reasons = Counter(found.strip() for found in _EXECUTION.findall(pasted.text))
    executions = reasons.total()
    compiled = sum(causes.values()) or len(graphs)
    if not graphs and not causes and not executions:
        return None
    largest = max(graphs, key=lambda graph: graph.total, default=None)
    counts = (
        f"PyTorch/XLA compiled {format_count(compiled, 'graphs')} and executed {executions:,}"
        if compiled
        else f"PyTorch/XLA executed {format_count(executions, 'graphs')}: {next(iter(reasons), '')}"
    )
    answer = _memory_words(largest) if largest is not None and compiled <= 1 and not executions else counts
    means = [_memory_words(largest)] if largest is not None and answer == counts else []
    means += [f"{format_count(count, 'compilations')} by {cause}." for cause, count in causes.most_common(3)]
    means += [
        f"{format_count(count, 'executions')} by {reason}." for reason, count in reasons.most_common(3)[:compiled]
    ]
    last = "compilation" if compiled else "execution"
    means += [f"The last {last} came from {place} ({function})." for function, place in _user_frame(pasted.text)]
    columns: tuple[Column[str, float], ...] = (
        Column("memory", "memory", of=lambda part, size: part),
        Column("gb", "GB", "number", of=lambda part, size: size),
    )
    sizes = largest.sizes if largest is not None else {}
    table = Table("program_memory", columns, rows_from_tuples(columns, sizes.items()), noun="kinds")
    return text_report(
        pasted,
        answer,
        means=means,
        tables=(table,) if sizes else (),
        advice=(_advice(compiled, executions, reasons), _DUMP),
        numbers={
            "graphs": compiled,
            "distinct_graphs": len(set(_HASH.findall(pasted.text))) or None,
            "executions": executions,
            "total_gb": largest.total if largest is not None else None,
        },
    )


def _graphs_in(text: str) -> Iterator[_Graph]:
    sizes: dict[str, float] = {}
    for name, size in _SIZE.findall(text):
        part = _SIZES[name]
        if part in sizes:
            yield _Graph(sizes)
            sizes = {}
        sizes[part] = float(size)
    if sizes:
        yield _Graph(sizes)


def _memory_words(graph: _Graph) -> str:
    signs = {"aliased": "− ", "inputs": ""}
    parts = " ".join(f"{signs.get(part, '+ ')}{size:.3g} {part}" for part, size in graph.sizes.items())
    return f"The graph needs {graph.total:.3g} GB = {parts}"


def _advice(compiled: int, executions: int, reasons: Counter[str]) -> str:
    if not compiled and any("access tensor value" in reason for reason in reasons):
        return (
            "A value that Python reads (item(), print, if) ends the graph and stalls until the device is done: read it "
            "after torch_xla.sync(), and only every some steps."
        )
    if compiled > 1 and executions and compiled * 2 > executions:
        return (
            "Most executions compile a new graph: look for shapes or Python values that change from step to step, and "
            "pad or keep them."
        )
    return "Compiling once for each set of shapes is usual; later steps reuse the graph."


def _user_frame(text: str) -> Iterator[tuple[str, str]]:
    """The innermost frame outside of PyTorch/XLA of the last compilation, if it is in the text."""
    last = 0
    for cause in _CAUSE.finditer(text) if _CAUSE.search(text) else _EXECUTION.finditer(text):
        last = cause.end()
    frames = ((found[1], found[2]) for found in _FRAME.finditer(text, last))
    yield from islice((frame for frame in frames if _OWN not in frame[1]), 1)


_OWN: Final = "/torch_xla/"


# --- metrics ---


_METRIC: Final = lazy_regex(
    r"^Metric: (\w+)\s*\n\s+TotalSamples: (\d{1,18})\s*\n\s+Accumulator: ([^\n]+)", re.MULTILINE
)
_COUNTER: Final = lazy_regex(r"^Counter: (\S+)\s*\n\s+Value: (\d{1,18})", re.MULTILINE)
_TIME: Final = re.compile(
    r""
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?(?:(?P<us>\d+"
    r"(?:\.\d+)?)us)?"
)
_IN_SECONDS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_MOST_NAMED: Final = 3  # operations that a sentence names; the table has all
_FALLBACK: Final = "aten::"
"""The begin of counters of operations that PyTorch ran on the host, as PyTorch/XLA has no rule for them."""


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric or a counter: `seconds` are the sum of the samples, None for what is no time."""

    name: str
    count: int
    seconds: float | None = None


def metrics_report(pasted: PastedText) -> Report | None:
    """The report on the metrics of PyTorch/XLA; None if it has none of its numbers."""
    metrics = [_Metric(name, int(count), _seconds(total)) for name, count, total in _METRIC.findall(pasted.text)]
    counters = [_Metric(name, int(value)) for name, value in _COUNTER.findall(pasted.text)]
    if not metrics and not counters:
        return None
    by_name = {metric.name: metric for metric in (*metrics, *counters)}
    fallbacks = sorted((each for each in counters if each.name.startswith(_FALLBACK)), key=lambda each: -each.count)
    times = [f"{words} {_timed(by_name[name])}" for name, words in _SAID.items() if name in by_name]
    columns: tuple[Column[_Metric], ...] = (
        Column("seconds", "time", "seconds", of=lambda metric: metric.seconds),
        Column("samples", "samples", "count", of=lambda metric: metric.count),
        Column("metric", "metric", "name", role="name", of=lambda metric: metric.name),
    )
    rows = sorted((*metrics, *counters), key=lambda each: (each.seconds is None, -(each.seconds or 0), -each.count))
    return text_report(
        pasted,
        f"PyTorch/XLA {', '.join(times)}" if times else f"PyTorch/XLA metrics: {format_count(len(rows), 'entries')}",
        means=tuple(_fallback_words(fallbacks)),
        tables=(Table("metrics", columns, rows_from(columns, rows), noun="metrics"),),
        advice=tuple(_metric_advice(by_name, fallbacks)),
        numbers={
            "compilations": _count(by_name, "CompileTime"),
            "executions": _count(by_name, "ExecuteTime"),
            "fallbacks": sum(each.count for each in fallbacks),
        },
    )


_SAID: Final = {
    "CompileTime": "compiled",
    "ExecuteTime": "executed",
    "TransferToDeviceTime": "sent arrays to the device",
    "TransferFromDeviceTime": "fetched arrays from the device",
}
"""The metrics that the sentence names."""


def _timed(metric: _Metric) -> str:
    times = format_count(metric.count, "times")
    return f"{times} in {format_seconds(metric.seconds)}" if metric.seconds is not None else times


def _count(by_name: dict[str, _Metric], name: str) -> int | None:
    return by_name[name].count if name in by_name else None


def _seconds(text: str) -> float | None:
    """The seconds of a time such as `02s350ms013.4us`; None for sizes and numbers.

    >>> _seconds("06m09s401ms746.001us"), _seconds("89.4MB"), _seconds("9.00")
    (369.401746001, None, None)
    """
    found = _TIME.fullmatch(text.strip())
    if found is None or not any(found.groupdict().values()):
        return None
    return sum(float(number) * _IN_SECONDS[unit] for unit, number in found.groupdict().items() if number)


def _fallback_words(fallbacks: Sequence[_Metric]) -> Iterator[str]:
    if fallbacks:
        named = ", ".join(f"{each.name} {each.count:,} times" for each in fallbacks[:_MOST_NAMED])
        more = f" and {len(fallbacks) - _MOST_NAMED:,} more" if len(fallbacks) > _MOST_NAMED else ""
        yield f"{format_count(len(fallbacks), 'operations')} ran on the host instead of the device: {named}{more}."


def _metric_advice(by_name: dict[str, _Metric], fallbacks: Sequence[_Metric]) -> Iterator[str]:
    compiled, executed = _count(by_name, "CompileTime"), _count(by_name, "ExecuteTime")
    if compiled is not None and executed is not None and compiled > 1 and 2 * compiled > executed:
        yield _advice(compiled, executed, Counter())
    if fallbacks:
        yield (
            "Each such operation stalls until the device is done, and copies its arguments: use one that PyTorch/XLA "
            "compiles."
        )
    yield _DUMP


# --- times ---
# The table of torch.profiler (torch/autograd/profiler_util.py): columns between rules of hyphens, times with units.

_RULE: Final = lazy_regex(r"^ *-{3,}(?: +-{3,})+ *$", re.MULTILINE)
_SELF_TOTAL: Final = lazy_regex(
    r"^ *Self (?P<device>\w+) time total: (?P<time>[\d.]{1,20} ?[mu\u00b5]?s)", re.MULTILINE
)
_CELLS: Final = lazy_regex(r" {2,}|\t")
_SPANNED: Final[tuple[Column[str, float, int, float], ...]] = (
    Column("seconds", "self time", "seconds", total="sum", of=lambda name, seconds, calls, share: seconds),
    Column("share", "share", "percent", of=lambda name, seconds, calls, share: share),
    Column("calls", "calls", "count", of=lambda name, seconds, calls, share: calls),
    Column("torch_operation", "operation", "name", role="name", of=lambda name, seconds, calls, share: name),
)


def times_report(pasted: PastedText) -> Report | None:
    """The operations with the most time on the device; of the CPU if there is none.

    Kernels have rows of their own with no time on the CPU: the operation that launched them counts the same time.
    """
    lines = [line.strip() for line in pasted.text.split("\n") if line.strip() and not _RULE.match(line)]
    head = next((at for at, line in enumerate(lines) if "Self CPU %" in line), None)
    if head is None:
        return None
    heads = _CELLS.split(lines[head])
    device = next((name for name in heads if _is_device(name)), "Self CPU")
    rows = [cells for line in lines[head + 1 :] if len(cells := _CELLS.split(line)) == len(heads)]
    if not {device, "Self CPU", "# of Calls"} <= set(heads):
        return None
    at, calls, own = heads.index(device), heads.index("# of Calls"), heads.index("Self CPU")
    found = [
        (cells[0], seconds, int(cells[calls]) if cells[calls].isdecimal() and len(cells[calls]) < 19 else 0)
        for cells in rows
        if (seconds := seconds_of(cells[at])) and (device == "Self CPU" or seconds_of(cells[own]))
    ]
    if not found:
        return None
    stated = {match["device"]: seconds_of(match["time"]) for match in _SELF_TOTAL.finditer(pasted.text)}
    total = stated.get(device.removeprefix("Self ")) or sum(seconds for _, seconds, _ in found)
    found.sort(key=lambda each: -each[1])
    listed = ", ".join(
        f"{name} {format_seconds(seconds)} ({format_percent(seconds / total)}%, {format_count(calls, 'calls')})"
        for name, seconds, calls in found[:_MOST_NAMED]
    )
    where = "on the CPU" if device == "Self CPU" else f"on the device ({device.removeprefix('Self ')})"
    kernels = len([cells for cells in rows if not seconds_of(cells[own])])
    repeated = (
        f"{format_count(kernels, 'rows')} of kernels {verb(kernels, 'repeats', 'repeat')} the time of the operations "
        "that launched them."
    )
    return text_report(
        pasted,
        f"{format_seconds(total)} {where}: {listed}",
        means=(repeated,) if kernels and device != "Self CPU" else (),
        tables=(
            Table(
                "torch_operations",
                _SPANNED,
                rows_from_tuples(_SPANNED, ((name, seconds, calls, seconds / total) for name, seconds, calls in found)),
                noun="operations",
            ),
        ),
        advice=("With a trace of a compiled program, `hlo profile TRACE DUMP` joins times and instructions.",),
        numbers={"operations": len(found), "seconds": total},
        next=("hlo help profiles",),
    )


def _is_device(head: str) -> bool:
    """Whether a column has the own time of operations on an accelerator: Self CUDA, Self XPU, Self Device."""
    return head.startswith("Self ") and "%" not in head and "CPU" not in head and "Mem" not in head
