"""`hlo fuse DUMP --why-not`: producer–consumer pairs that are not fused, why, and what fusing them would save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hlo_cli.analysis.fusion.cpu_rules import FusionRules
from hlo_cli.analysis.fusion.unfused_pairs import UnfusedPair, unfused_pairs
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.fuse.options import FuseOptions
from hlo_cli.commands.fuse_gpu.pair_names import is_selected, no_pair
from hlo_cli.commands.modules.loading import Loaded, input_facts, notes_of
from hlo_cli.commands.options.filters import rows_where
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Column, Table
from hlo_cli.report.text import Passage
from hlo_cli.source import Diagnostic

_COLUMNS = (
    Column("possible_saving_bytes", "saving", "bytes", role="saving"),
    Column("producer", "producer", "name", role="name"),
    Column("consumer", "consumer", "name", role="name"),
    Column("rule", "rule", "name"),
    Column("reason", "reason", rank=2),
    Column("is_fusible", "fusible", "flag", person=False),
    Column("computation", "computation", "name", from_width=120),
)


def report_of_reasons(loaded: Loaded, options: FuseOptions, *, within: Computation | None, argument: str) -> Report:
    """Reasons of XLA:GPU, unless the rules of the CPU compiler are named, or the module is for another target."""
    if not options.changes.switches:
        from hlo_cli.commands.fuse_gpu.why_not import report_of_gpu_why_not

        found = report_of_gpu_why_not(
            loaded,
            options.changes.gpus,
            names=options.pair_names,
            within=within,
            where=options.where,
            argument=argument,
        )
        if found is not None:
            return found
    from hlo_cli.commands.fuse.what_if import rules_of

    rules = rules_of(options.changes.switches)
    return report_of_why_not(
        loaded, rules, names=options.pair_names, within=within, where=options.where, argument=argument
    )


def report_of_why_not(
    loaded: Loaded,
    rules: FusionRules,
    *,
    names: Sequence[str] = (),
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report:
    """One row for each pair, the largest saving first; of one instruction or one pair, if `names` are given."""
    for name in names:
        loaded.module.instruction(name)
    pairs = [
        pair
        for pair in unfused_pairs(loaded.module, rules)
        if (within is None or pair.consumer.computation is within)
        and is_selected(names, pair.producer.name, pair.consumer.name)
    ]
    pairs.sort(key=lambda pair: (-pair.saved_bytes, pair.producer.name, pair.consumer.name))
    rows = tuple(_row(pair, _reason(pair, is_compiled=loaded.module.is_scheduled)) for pair in pairs)
    everything = Table("pairs", _COLUMNS, rows, noun="pairs")
    table = everything if where is None else rows_where(where, everything)
    parts: tuple[Part, ...] = (table,) if table.rows else (Passage("nothing", (_nothing(everything),)), table)
    return Report(
        "fuse",
        _answer(pairs) if pairs or not names else no_pair(names),
        numbers={
            "pairs": len(pairs),
            "fusible_pairs": sum(pair.rule.fuses for pair in pairs),
            **{f"rule_{name}": number for name, number in sorted(Counter(p.rule.name for p in pairs).items())},
        },
        parts=parts,
        next=_next(pairs, argument),
        notes=(*_notes(loaded), *notes_of(loaded)),
        input=input_facts(loaded),
    )


def _row(pair: UnfusedPair, reason: str) -> tuple[int, str, str, str, str, bool, str]:
    names = pair.producer.name, pair.consumer.name
    return pair.saved_bytes, *names, pair.rule.name, reason, pair.rule.fuses, pair.consumer.computation.name


def _reason(pair: UnfusedPair, *, is_compiled: bool) -> str:
    """The rule that prevents the fusion; without one, the likely reason."""
    if not pair.rule.fuses:
        return pair.words
    if not is_compiled:
        return "no rule prevents it"
    if opcodes.COPY in (pair.producer.opcode, pair.consumer.opcode):
        return "no rule prevents it; the copy was inserted after fusion"
    return "no rule prevents it; the code was different when the fusion pass ran"


def _answer(pairs: list[UnfusedPair]) -> str:
    if not pairs:
        return "No kernel reads the result of another kernel"
    rejected = Counter(pair.rule.name for pair in pairs if not pair.rule.fuses).most_common()
    would = sum(pair.rule.fuses for pair in pairs)
    verb = "is" if len(pairs) == 1 else "are"
    words = f"{format_count(len(pairs), 'producer–consumer pairs')} {verb} not fused"
    words += f"; {would:,} could be" if would else ""
    if rejected:
        words += f". Most common reason: {rejected[0][0]} ({rejected[0][1]:,})"
    best = max(pairs, key=lambda pair: pair.saved_bytes)
    return words + (f". Largest possible saving: {format_bytes(best.saved_bytes)}" if best.saved_bytes > 0 else "")


def _nothing(everything: Table) -> str:
    if everything.rows:
        return f"No matches among {format_count(len(everything.rows), 'pairs')}."
    return "All kernels read only parameters and constants."


def _notes(loaded: Loaded) -> tuple[Diagnostic, ...]:
    target = target_of(loaded.module)
    mismatch = f", but this module was compiled for {target.upper()}" if target in ("tpu", "gpu") else ""
    return (
        Diagnostic("note", f"rules are those of the CPU compiler in jaxlib 0.10.2{mismatch}; see `hlo help fusion`"),
        Diagnostic("note", "savings are from XLA's cost analysis, for each pair separately"),
    )


def _next(pairs: list[UnfusedPair], argument: str) -> tuple[str, ...]:
    pair = next((pair for pair in pairs if pair.rule.fuses and pair.saved_bytes > 0), None)
    if pair is None or not argument or argument == "-":
        return ()
    return (f"hlo fuse {argument} --fuse {pair.producer.name},{pair.consumer.name}",)
