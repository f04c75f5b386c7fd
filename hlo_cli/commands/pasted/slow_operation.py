"""Warnings about slow operations of the compiler in place of a module: what is slow, how much work it is, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import MAX_FOLDED_ELEMENTS, evaluations, operand_elements
from hlo_cli.commands.modules.quoted import FoundInstruction, one_line, read_instruction
from hlo_cli.commands.pasted.parts import explained_parts
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.compiler_messages import SlowOperation
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Row, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic
from hlo_cli.syntax.compiler_files.compiler_warnings import parse_slow_operations

_COLUMNS: Final = (
    Column("warnings", "warnings", "count", total="sum"),
    Column("seconds", "time", "seconds"),
    Column("operation", "operation", rank=6),
    Column("instruction", "instruction", "name", role="name"),
    Column("evaluations", "evaluations", "count"),
    Column("operand_elements", "operand elements", "count", person=False),
    Column("bytes", "result", "bytes"),
    Column("shape", "shape", "shape"),
    Column("op_name", "op_name", "op_name", rank=3, from_width=120),
    Column("source", "source", "source", rank=4),
)


@dataclass(frozen=True, slots=True)
class SlowGroup:
    """The warnings about one instruction or module, with the longest time in them."""

    warnings: int
    first: SlowOperation
    seconds: float | None
    found: FoundInstruction | None

    @property
    def name(self) -> str:
        """The name of the instruction or module; empty if it is not in the text."""
        return self.first.name or (self.found.name or self.found.instruction.opcode if self.found else "")

    @property
    def evaluations(self) -> int | None:
        """The scalar operations of the instruction."""
        return evaluations(self.found.instruction) if self.found and self.first.kind == "folding" else None

    @property
    def bytes(self) -> int | None:
        """The size of the result."""
        return self.found.instruction.shape.logical_bytes if self.found else None


def report_of(pasted: PastedText) -> Report:
    """The report on all warnings of a text, the one with the most work first."""
    groups = _groups(parse_slow_operations(pasted.text))
    if not groups:
        from hlo_cli.commands.pasted.compiler_error import report_of as report_of_error

        return report_of_error(pasted)
    first = groups[0]
    parts: list[Part] = [
        Table("operations", _COLUMNS, tuple(map(_row, groups)), noun="operations", limit=10, person=len(groups) > 1)
    ]
    if first.found is not None:
        parts += explained_parts([first.found])
    parts.append(Passage("advice", tuple(_advice(first))))
    return Report(
        "parse",
        _answer(first),
        numbers={
            "operation": first.first.kind,
            "warnings": sum(group.warnings for group in groups),
            "name": first.name or None,
            "seconds": first.seconds,
            "threshold_seconds": first.first.threshold_seconds,
            "evaluations": first.evaluations,
            "bytes": first.bytes,
            "op_name": first.found.op_name or None if first.found else None,
            "source": first.found.source or None if first.found else None,
        },
        parts=tuple(parts),
        next=("hlo help dump",),
        notes=tuple(_notes(first)),
        input={"path": pasted.name, "line": first.first.line},
    )


def _groups(warnings: Sequence[SlowOperation]) -> list[SlowGroup]:
    found = defaultdict[tuple[str, str], list[SlowOperation]](list)
    for warning in warnings:
        found[warning.kind, one_line(warning.operation) or warning.name].append(warning)
    groups = [_group(text, group) for (_, text), group in found.items()]
    return sorted(groups, key=lambda group: (-(group.evaluations or 0), -(group.seconds or 0), -(group.bytes or 0)))


def _group(text: str, group: Sequence[SlowOperation]) -> SlowGroup:
    times = [each.seconds for each in group if each.seconds is not None]
    instruction = read_instruction(text) if group[0].operation else None
    return SlowGroup(len(group), group[0], max(times) if times else None, instruction)


def _row(group: SlowGroup) -> Row:
    instruction = group.found.instruction if group.found else None
    operands: Cell = operand_elements(instruction) if instruction is not None else None
    return (
        group.warnings,
        group.seconds,
        _WORDS[group.first.kind],
        group.name or None,
        group.evaluations,
        operands,
        group.bytes,
        str(instruction.shape) if instruction is not None else None,
        group.found.op_name or None if group.found else None,
        group.found.source or None if group.found else None,
    )


_WORDS: Final = {
    "folding": "constant folding",
    "compilation": "compilation",
    "unoptimized build": "compilation",
    "autotuning": "autotuning",
}


def _answer(group: SlowGroup) -> str:
    time = _time(group)
    match group.first.kind:
        case "folding":
            words = f"XLA computes {group.name or 'an instruction'} during compilation{time}"
            work = f" with {format_count(group.evaluations, 'evaluations')}" if group.evaluations else ""
            return f"{words}: a constant of {format_bytes(group.bytes)}{work}" if group.bytes else words
        case "autotuning":
            return f"Trying the algorithm {group.first.algorithm} for {group.name or 'an instruction'} is slow{time}"
        case "unoptimized build":
            return "XLA was built without compiler optimizations, so compilation is slow"
        case _:
            return f"Compiling {group.name or 'a module'} is slow{time}"


def _time(group: SlowGroup) -> str:
    if group.seconds is not None:
        return f" ({format_seconds(group.seconds)})"
    threshold = group.first.threshold_seconds
    return f" (more than {threshold:g} s)" if threshold else ""


def _notes(group: SlowGroup) -> list[Diagnostic]:
    notes = []
    if group.found is None and group.first.operation:
        notes.append(Diagnostic("note", f"cannot read the instruction: {one_line(group.first.operation)[:200]}"))
    elif group.found is None:
        notes.append(Diagnostic("note", "the text has only a name, not the instruction"))
    threshold = group.first.threshold_seconds or 0
    if group.first.kind == "folding" and threshold > 1:
        earlier = int(threshold).bit_length() - 1
        notes.append(
            Diagnostic("note", f"the threshold doubles with each slow instruction; {earlier} came before this one")
        )
    return notes


def _advice(group: SlowGroup) -> list[str]:
    match group.first.kind:
        case "folding":
            return _folding_advice(group)
        case "autotuning":
            return [_TRIALS, _KEEP_TRIALS]
        case "unoptimized build":
            return ["Rebuild XLA with `-c opt`, or install a release of jaxlib or TensorFlow."]
        case _:
            return [_COMPILATION, _DUMP]


def _folding_advice(group: SlowGroup) -> list[str]:
    size = f" of {format_bytes(group.bytes)}" if group.bytes else ""
    means = (
        "This is not an error. The operands are constants, so XLA evaluates the instruction on the host and stores the "
        f"result{size} in the executable. It skips results and operands of more than {MAX_FOLDED_ELEMENTS:,} elements."
    )
    repeated = _repeated_operands(group)
    instead = (
        "To avoid it, pass the array as an argument of the jitted function instead of closing over it or creating it "
        "inside; to compute it once on the host, create it with NumPy outside of jit. To switch the pass off, set "
        "XLA_FLAGS=--xla_disable_hlo_passes=constant_folding."
    )
    place = ", ".join(filter(None, (group.found.op_name, group.found.source))) if group.found else ""
    means = f"{means} {repeated}".strip()
    found = [means, f"It comes from {place}. {instead}" if place else instead]
    return found if group.found else [*found, f"The message shows only a name. {_DUMP}"]


def _repeated_operands(group: SlowGroup) -> str:
    """A sentence on the operands that, by their names, repeat one value or count up."""
    if group.found is None:
        return ""
    instruction = group.found.instruction
    names = [
        f"{operand.name} ({format_bytes(instruction.operand_shape(at).logical_bytes)})"
        for at, operand in enumerate(instruction.operands)
        if operand.name.startswith(("broadcast", "iota")) and instruction.operand_shape(at).logical_bytes
    ]
    made = "by its name a repeated value or an iota, such as from jnp.zeros, jnp.ones, or jnp.arange"
    return f"The operand {' and '.join(names)} is {made}." if names else ""


_DUMP: Final = (
    "To see the instructions, set XLA_FLAGS=--xla_dump_to=DIR, compile again, and run `hlo parse DIR` on the result."
)
_COMPILATION: Final = (
    "This is not an error. XLA warns once a compilation takes 2 minutes, and only for the first of 1, 2, 4, 8, and so "
    "on slow ones; no option switches the warning off, but TF_CPP_MIN_LOG_LEVEL=3 hides all errors in the log. Usual "
    "causes are unrolled Python loops (use jax.lax.scan or fori_loop), large constants, and many autotuned kernels; "
    "a persistent compilation cache (jax_compilation_cache_dir) keeps the result."
)
_TRIALS: Final = (
    "This is not an error. While compiling, XLA runs each algorithm of the library once per shape and keeps the "
    "fastest; the program itself is not slowed."
)
_KEEP_TRIALS: Final = (
    "To shorten it, keep shapes constant, store the results with --xla_gpu_per_fusion_autotune_cache_dir=DIR, or lower "
    "--xla_gpu_autotune_level (0 switches it off and takes a default algorithm)."
)
