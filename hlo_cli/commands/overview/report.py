"""What is the most important about a dump? Its main module: what runs, whether it fits, the lines that cost most."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.analysis.fusion.kernels import execution_cost, kernels_of, launches_of
from hlo_cli.analysis.hardware.chip_table import Chip, ChipSpec
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis, memory_fits, needed_bytes
from hlo_cli.analysis.origin.origins import OTHER_KEYS, By
from hlo_cli.analysis.query.main_module import ModuleCost
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.commands.fuse.costs import report_of_causes
from hlo_cli.commands.fuse.kernel_kinds import other_totals, timing_of
from hlo_cli.commands.lint.checking import lint_loaded
from hlo_cli.commands.lint.configuration import chip_setting, load_config
from hlo_cli.commands.lint.report import in_order
from hlo_cli.commands.lint.report import report_of as report_of_findings
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.memspace.report import fit_in_words, need_in_words, peak_and_place
from hlo_cli.commands.memspace.usage import decisive_fit
from hlo_cli.commands.modules.loading import (
    Loaded,
    Many,
    devices_together,
    input_facts,
    input_of,
    main_among,
    module_words,
    not_partitioned,
    number_of_module,
    stage_of,
)
from hlo_cli.commands.modules.many import arguments_of, modules_table, named, ranking_of
from hlo_cli.commands.modules.recompilations import compiled_again
from hlo_cli.commands.options.chips import chip_of, throughput_for
from hlo_cli.commands.options.io_options import InputOptions, format_options
from hlo_cli.commands.parse.overview import report_of_module
from hlo_cli.commands.report.page import title_of
from hlo_cli.commands.schedule.async_table import Transfers, report_of_pairs, transfers_by_cause, transfers_of
from hlo_cli.commands.schedule.sequence import report_of_steps
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import kinds_in
from hlo_cli.inputs.files import ProgramLines
from hlo_cli.inputs.input import Input
from hlo_cli.inputs.pasted.envelopes import ENVELOPE_OF
from hlo_cli.ir.attributes.metadata import SourceLocation, is_library_file
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.findings import Findings
from hlo_cli.report.findings import Group as FindingGroup
from hlo_cli.report.numbers import (
    format_bytes,
    format_count,
    format_flops,
    format_percent,
    format_seconds,
    format_seconds_range,
    verb,
)
from hlo_cli.report.report import Part, Report
from hlo_cli.report.table import Cell, Column, Fact, Facts, Table, number_of, rows_from
from hlo_cli.report.text import Passage, Role, Run, line_of, plain_text
from hlo_cli.scan_modules import ScanResult
from hlo_cli.source import Diagnostic

# --- the other modules ---


@dataclass(frozen=True, slots=True)
class Others:
    """All modules of an input, of which `main` is reported; `chosen` is its input, `argument` what selects it."""

    results: tuple[ScanResult[ModuleCost], ...]
    main: int
    place: str
    chosen: Input
    argument: str

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The errors of the inputs that could not be read."""
        return tuple(
            Diagnostic("error", named(each.path, each.problem))
            for at, each in enumerate(self.results)
            if each.problem and at != self.main
        )


def others_of(many: Many, reading: InputOptions) -> Others:
    """The modules of an input that has several."""
    results, main = main_among(many, reading)
    argument = arguments_of(many, reading, results, main)
    return Others(tuple(results), main, many.place, input_of(many, results, main, reading), argument)


_MAX_NAMED: Final = 3  # names of further modules fit a line of 80 columns


def _other_facts(others: Others | None) -> Iterator[Fact]:
    """How many modules there are, what the reported one costs of them, and the helpers in one line.

    Its share is unknown if another module was not read whole, or if none accesses bytes. If another one accesses more,
    the choice rests on how often functions with such names and states run, which the modules do not have.
    """
    if others is None:
        return
    ranking, read = ranking_of(others.results)
    helpers = {read[at] for at in ranking.helpers}
    own = [read[at] for at in ranking.order if read[at] not in helpers and read[at] != others.main]
    main = read.index(others.main)
    main_share = ranking.bytes_shares[main]
    words = f"; run once each, this one accesses {format_percent(main_share)}% of the bytes" if main_share else ""
    if damaged := len(others.problems):
        words = f"; {damaged:,} of them {verb(damaged, 'has', 'have')} errors, so the share of this one is unknown"
    yield Fact("modules", remark=f"{len(others.results):,}{words}")
    if main_share < max(ranking.bytes_shares):
        yield Fact("choice", remark="a guess by names, states, and costs; --module NAME selects another")
    if own:
        names = [module_words(others.results, at) for at in own]
        more = f", and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        yield Fact("others", remark=f"{', '.join(names[:_MAX_NAMED])}{more}")
    yield from _compiled_again(others, helpers)
    if helpers:
        share = format_percent(ranking.bytes_share(ranking.helpers))
        yield Fact(
            "helpers",
            remark=f"{format_count(len(helpers), 'modules')} of JAX's own functions, {share}% of the bytes",
        )


def _compiled_again(others: Others, helpers: Collection[int]) -> Iterator[Fact]:
    """The functions of the user that were compiled several times, and which argument varies."""
    programs = (
        (os.path.dirname(each.path), each.module or each.path, each.answer.arguments)
        for at, each in enumerate(others.results)
        if each.answer is not None and at not in helpers
    )
    for function, cause in compiled_again(programs)[:_MAX_COMPILED_AGAIN]:
        why = cause.words if cause is not None else "the arguments are the same"
        yield Fact("compiled", remark=f"{function.name} {function.compiled:,} times: {why}")


_MAX_COMPILED_AGAIN: Final = 2  # of each a line; `hlo parse` lists all modules


def _file_facts(folder: str) -> Iterator[Fact]:
    """What else lies in the folder that the command was given, by kind."""
    kinds = kinds_in(folder) if folder else {}
    named = [
        f"{_ARTICLE.sub('', ENVELOPE_OF[kind].noun)} ({count:,})"
        for kind, count in sorted(kinds.items(), key=lambda each: -each[1])
    ]
    if named:
        yield Fact("files", remark=f"{_as_many_as_fit(named)}{_ANSWERED}")


_ARTICLE: Final = lazy_regex(r"^an? ")
_ANSWERED: Final = "; `hlo FILE` answers each"


def _as_many_as_fit(kinds: Sequence[str]) -> str:
    """The first kinds of files, and how many more there are, on a line with what answers them.

    >>> _as_many_as_fit(["LLVM IR (138)", "object file (69)", "list of compiler flags (17)"])
    'LLVM IR (138), object file (69), 1 more'
    """
    room = _SCREEN_WIDTH - _LABEL_WIDTH - len(_ANSWERED)
    texts = (
        ", ".join((*kinds[:shown], *((f"{len(kinds) - shown:,} more",) if shown < len(kinds) else ())))
        for shown in range(len(kinds), 0, -1)
    )
    return next((text for text in texts if len(text) <= room), f"{kinds[0]}, {len(kinds) - 1:,} more")


# --- memory and time ---


def _chip_of(loaded: Loaded, name: str | None) -> Chip | None:
    """The chip that is given, else the one that the dump names."""
    name = chip_of(loaded.input, name)
    return None if name is None else find_chip(name)


def _memory_words(loaded: Loaded, memory: MemoryAnalysis, chip: Chip | None) -> str:
    """Whether the module fits the chip, in a few words; without a chip, how much it needs of main memory."""
    fits, is_final = memory_fits(memory, None, chip), stage_of(loaded) == "optimized" and devices_together(loaded) == 1
    main, fit = memory.main, decisive_fit(fits)
    if main is None:
        return "no values in memory"
    if chip is None or fit is None:
        return need_in_words(memory, main, is_bound=not is_final)
    if fit.excess_bytes > 0:
        return f"{'does not fit' if is_final else 'may not fit'} {chip.name} ({fit_in_words(fit)})"
    return f"fits {chip.name} ({fit_in_words(fit)})"


def _peak_words(memory: MemoryAnalysis) -> str:
    """What line 1 does not say: the temporaries among the bytes that are needed, and what is live at once."""
    main, fullest = memory.main, memory.fullest
    if main is None or fullest is None:
        return ""
    temporary_bytes = main.totals.temporary_bytes if main.offsets != "unknown" else 0
    temporaries = f"{format_bytes(temporary_bytes)} of temporaries" if temporary_bytes else ""
    live = f"live peak {peak_and_place(memory, main)}"
    other = "" if fullest is main else f"{fullest.name} live peak {format_bytes(fullest.peak_bytes)}"
    return "; ".join(filter(None, (temporaries, live, other)))


def _time_words(steps: Report | None, chip: Chip | None) -> str:
    """The estimated time of an execution; empty without a chip."""
    if steps is None or chip is None:
        return ""
    low, seconds, high = (
        number_of(steps.numbers.get(f"execution_{name}seconds")) or 0.0 for name in ("low_", "", "high_")
    )
    if not seconds:
        return ""
    if steps.numbers.get("lower_bounds"):
        return f"at least {format_seconds(seconds)} per execution (estimate)"
    return f"about {format_seconds_range(low, seconds, high)} per execution"


# --- lines of the program ---


_LINES: Final = 3
"""The lines that are shown: what comes after is seldom what to change first, and the screen has 24 lines."""


@dataclass(frozen=True, slots=True)
class _LineCost:
    """A line of the program, or a named scope, with what its kernels take in one execution, and what is exposed."""

    key: str
    seconds: float | None
    exposed: float | None
    bytes: int
    flops: int
    kernels: int
    share: float
    code: str | None


def _causes(loaded: Loaded, by: By, spec: ChipSpec | None, argument: str) -> Report:
    """What `hlo fuse --by` says of the module."""
    timing = timing_of(loaded, spec)
    return report_of_causes(loaded, by, within=None, where=None, timing=timing, argument=argument)


def _lines_table(
    loaded: Loaded, spec: ChipSpec | None, argument: str, of_sources: Report, transfers: Transfers
) -> Table | None:
    """The lines of the program that cost most, those of libraries last; scopes without lines, None without either."""
    for by in ("source", "scope"):
        work = of_sources if by == "source" else _causes(loaded, by, spec, argument)
        costs = _costs_by(loaded, by, work, _exposed_by(loaded, by, transfers))
        if any(cost.key not in OTHER_KEYS for cost in costs):
            break
    else:
        return None
    has_times = any(cost.seconds or cost.exposed for cost in costs)
    columns: tuple[Column[_LineCost], ...] = (
        Column("share", "share", "percent", of=lambda cost: cost.share),
        Column("seconds", "est. time", "seconds", person=has_times, of=lambda cost: cost.seconds),
        Column("exposed_seconds", "exposed", "seconds", role="waste", person=any(cost.exposed for cost in costs),
               of=lambda cost: cost.exposed),
        Column("bytes", "accessed", "bytes", of=lambda cost: cost.bytes),
        Column("flops", "flops", "flops", of=lambda cost: cost.flops),
        Column("kernels", "kernels", "count", of=lambda cost: cost.kernels),
        Column("source" if by == "source" else "scope", "most time" if has_times else "most bytes",
               "source" if by == "source" else "op_name", role="name", of=lambda cost: cost.key),
        Column("source_text", "code", person=any(cost.code for cost in costs), of=lambda cost: cost.code),
    )  # fmt: skip
    return Table("lines", columns, rows_from(columns, costs), noun="lines", limit=_LINES, sorted_by="share")


def _exposed_by(loaded: Loaded, by: By, transfers: Transfers) -> Mapping[str, float] | None:
    """What `hlo schedule --by` says of the exposed time of each line or scope; None without a chip."""
    if transfers.times is None:
        return None
    table = transfers_by_cause(loaded, transfers, by)
    keys, exposed = table.column_index(by), table.column_index("exposed_seconds")
    return {str(row[keys]): seconds for row in table.rows if (seconds := number_of(row[exposed]))}


def _costs_by(loaded: Loaded, by: By, report: Report, known: Mapping[str, float] | None) -> list[_LineCost]:
    """The costs of `hlo fuse --by`, the user's own lines first, each with its share of the time or of the bytes.

    The time is that of kernels and of exposed transfers, which are all of an execution.
    """
    table = next((part for part in report.parts if isinstance(part, Table) and part.name == f"by_{by}"), None)
    if table is None:
        return []
    at, code_of = {column.name: number for number, column in enumerate(table.columns)}, _code_of(loaded.module)
    rows, exposed = {str(row[at[by]]): row for row in table.rows}, known or {}

    def cell(key: str, name: str) -> float:
        return number_of(rows[key][at[name]]) or 0 if key in rows and name in at else 0

    keys = (*rows, *(key for key in exposed if key not in rows))
    seconds = {key: cell(key, "total_seconds") + exposed.get(key, 0.0) for key in keys}
    spent = seconds if any(seconds.values()) else {key: cell(key, "total_bytes") for key in keys}
    whole = sum(spent.values()) or 1
    costs = [
        _LineCost(
            key,
            cell(key, "total_seconds") if "total_seconds" in at else None,
            None if known is None else exposed.get(key, 0.0),
            round(cell(key, "total_bytes")),
            round(cell(key, "total_flops")),
            round(cell(key, "kernels")),
            spent[key] / whole,
            code_of(key) if by == "source" else None,
        )
        for key in keys
    ]
    return sorted(costs, key=lambda cost: (cost.key in OTHER_KEYS or is_library_file(cost.key), -cost.share))


def _code_of(module: Module) -> Callable[[str], str | None]:
    """The code on a line of the program, as `file:line`; None if it is not at hand or not what was compiled."""
    tables, lines = module.stack_frames, ProgramLines()
    places: dict[str, list[SourceLocation]] = {}
    for number in range(1, len(tables.frames) + 1):
        if (location := tables.innermost(number)) is not None:
            places.setdefault(str(location), []).append(location)

    def code_of(key: str) -> str | None:
        file, _, line = key.rpartition(":")
        known = places.get(key) or ([SourceLocation(file, int(line))] if line.isdigit() else [])
        texts = (lines.of(each.file, each.line, each.function, each.columns) for each in known)
        return next(filter(None, texts), None)

    return code_of


# --- the worst finding ---


def _findings_of(loaded: Loaded, chip: Chip | None, spec: ChipSpec | None, argument: str) -> Report:
    """The findings of `hlo lint` on the module, with the settings of the working directory."""
    config = load_config({"chip": chip_setting(None if chip is None else chip.name, None)}, (), isolated=False)
    result = lint_loaded(loaded, config.settings, chip=spec)
    return report_of_findings(result, in_order(result.found, "cost"), config.settings, argument)


def _groups_of(findings: Report) -> Sequence[FindingGroup]:
    return next((part.groups for part in findings.parts if isinstance(part, Findings)), ())


def _worst_finding(groups: Sequence[FindingGroup]) -> Passage | None:
    """The first group of findings in one sentence, with what it costs and where its worst member is."""
    if not groups:
        return None
    group = groups[0]
    role: Role = "alarm" if group.severity == "error" else "waste" if group.severity == "warning" else "strong"
    place = os.path.basename(group.worst.location or "")
    line = place if place not in group.message else ""
    # The message of several ends with their places: the line of the worst is beside the cost.
    where, worst = (f" at {line}", "") if len(group.members) == 1 else ("", f"the worst at {line}")
    cost = format_bytes(group.cost_bytes) if group.cost_bytes else ""
    words = (cost if cost not in group.message else "", worst if line else "")
    cost = f" ({'; '.join(filter(None, words))})" if any(words) else ""
    where = where if line else ""
    text = (Run(f"{group.severity} {group.code}", role), f": {group.message}{where}{cost}")
    return Passage("finding", (text,))


# --- the report ---


def report_of_overview(
    loaded: Loaded, chip_name: str | None, argument: str, others: Others | None, *, folder: str = ""
) -> Report:
    """The most important about a module, in one screen; `folder` is the one that was given, if it was a folder."""
    chip = _chip_of(loaded, chip_name)
    spec, module = throughput_for(loaded.input, None if chip is None else chip.name, None), loaded.module
    memory = compiler_memory(loaded, chip=None if chip is None else chip.name)
    overlap = analyze_overlap(module)
    steps = None
    if spec is not None:
        steps = report_of_steps(loaded, overlap, space=None, within=None, where=None, throughput=spec, memory=memory)
    transfers = transfers_of(loaded, overlap, None, spec)
    pairs = report_of_pairs(loaded, overlap, within=None, where=None, argument=argument, selected=transfers)
    findings = _findings_of(loaded, chip, spec, argument)
    groups = _groups_of(findings)
    work = _causes(loaded, "source", spec, argument)
    lines = _lines_table(loaded, spec, argument, work, transfers)
    words = (_memory_words(loaded, memory, chip), _time_words(steps, chip), _findings_words(findings))
    number = None if others is None else number_of_module(others.results[others.main].path)
    title = title_of(loaded, chip_name)
    # Without a chip the sentence has no time, and with one the first line has that of the execution.
    moved = pairs.answer if transfers.times is None else transfers.times.answer(is_brief=True)
    worst = _worst_finding(groups)
    answer = f"{title}{f' ({number})' if number else ''}: {'; '.join(filter(None, words))}"
    following = _next(argument, fits=not words[0].startswith(("does not", "may not")), groups=groups, pairs=pairs)
    done = _work_of(loaded.module, work)
    stated = list(_facts(loaded, memory, done.words, moved if _has_transfers(pairs) else "", others, folder))
    others_height = _height(answer) + _height_of_lines(lines) + (_height_of_finding(worst) if worst else 0)
    room, notes = _SCREEN_LINES - others_height - len(following), tuple(_notes(loaded))
    xla = other_totals(loaded.module)
    stated[0] = _with_remark(
        stated[0], xla and f" ({xla})", room - sum(map(_height_of_fact, stated[1:])) - len(notes) - 1
    )
    parts: list[Part] = [Facts("module", tuple(_within(stated, room)))]
    parts += [lines] if lines is not None else [_largest_values(loaded)]
    parts += [worst] if worst is not None else []
    parts += [replace(modules_table(others.results), main=False, person=False)] if others is not None else []
    return Report(
        "overview",
        answer,
        version=1,
        numbers={**_numbers(loaded, memory, chip, steps, findings, others), **done.numbers},
        parts=tuple(parts),
        next=following,
        notes=notes,
        input=input_facts(loaded),
    )


def with_hosts(report: Report, path: str, hosts: Sequence[str]) -> Report:
    """The report on the first host of a directory with several, which names the command that compares all of them."""
    compare = f"hlo diff {format_options((('', path),))}"
    note = Diagnostic("note", f"{path} has {len(hosts):,} hosts; showing {hosts[0]}")
    return replace(report, next=(compare, *report.next[:1]), notes=(*report.notes, note))


def _findings_words(findings: Report) -> str:
    counts = ((number_of(findings.numbers.get(name)) or 0, name) for name in ("errors", "warnings", "notes"))
    return ", ".join(format_count(round(number), name) for number, name in counts if number) or "no findings"


def _facts(
    loaded: Loaded, memory: MemoryAnalysis, runs: str, moved: str, others: Others | None, folder: str
) -> Iterator[Fact]:
    """What `runs`, what it is given and returns, what is `moved`, and the other modules."""
    yield Fact("runs", remark=runs)
    if words := _peak_words(memory):
        yield Fact("memory", remark=words, is_whole=True)
    yield Fact("arguments", remark=_signature(loaded))
    if moved:
        yield Fact("transfers", remark=moved, is_whole=True)
    yield from _other_facts(others)
    yield from _file_facts(folder)


@dataclass(frozen=True, slots=True)
class _Work:
    """The kernels of a module, how often they are launched, and what one execution computes and accesses.

    `is_known` tells whether the trip counts of all loops are; `unknown` is the number of operations of unknown cost.
    """

    kernels: int
    launches: int
    flops: int
    bytes: int
    is_known: bool = True
    unknown: int = 0

    @property
    def numbers(self) -> Mapping[str, Cell]:
        """The numbers under the names that they have in `hlo fuse`."""
        return {
            "kernels": self.kernels,
            "launches": self.launches if self.is_known else None,
            "total_flops": self.flops,
            "total_bytes": self.bytes,
            "operations_of_unknown_cost": self.unknown,
        }

    @property
    def words(self) -> str:
        """The numbers in words; a kernel of a loop is launched many times.

        >>> _Work(2, 9, 40, 64, is_known=False, unknown=1).words
        '2 kernels launched at least 9 times, at least 40 flops, 64 B accessed'
        """
        often = f"{'' if self.is_known else 'at least '}{self.launches:,}"
        launched = f" launched {often} times" if self.launches != self.kernels or not self.is_known else ""
        flops = f"{'at least ' if self.unknown else ''}{format_flops(self.flops)}"
        return f"{format_count(self.kernels, 'kernels')}{launched}, {flops}, {format_bytes(self.bytes)} accessed"


def _work_of(module: Module, by_source: Report) -> _Work:
    """The work of a module, of which `hlo fuse --by source` has the sums."""
    kernels, flops, accessed = (
        round(number_of(by_source.numbers.get(name)) or 0) for name in ("kernels", "total_flops", "total_bytes")
    )
    is_known = all(kernel.times is not None for kernel in kernels_of(module) if not kernel.is_transfer)
    return _Work(kernels, launches_of(module), flops, accessed, is_known, execution_cost(module).unknown)


def _has_transfers(pairs: Report) -> bool:
    return bool(number_of(pairs.numbers.get("pairs")) or number_of(pairs.numbers.get("synchronous")))


# --- the height of the screen ---


_SCREEN_LINES: Final = 24  # of a terminal that nobody has enlarged
_SCREEN_WIDTH: Final = 80  # of the same terminal
_LABEL_WIDTH: Final = 11  # the longest label of a fact, `arguments`, and two blanks
_LEAST_NEEDED: Final = ("files", "others", "compiled", "helpers")
"""Facts that a screen omits if there is no room for all, in that order: other commands show the same."""


def _height(text: str, width: int = _SCREEN_WIDTH) -> int:
    return len(textwrap.wrap(text, width)) or 1


def _height_of_lines(table: Table | None) -> int:
    """A blank line, the head, the rows, and the number of rows that are omitted; of values, the rows are few, too."""
    if table is None:
        return _LINES + 5
    return 4 + min(len(table.rows), _LINES) + (len(table.rows) > _LINES)


def _height_of_finding(finding: Passage) -> int:
    return 1 + sum(_height(plain_text(line_of(text))) for text in finding.paragraphs)


def _height_of_fact(fact: Fact) -> int:
    return _height(fact.remark, _SCREEN_WIDTH - _LABEL_WIDTH) if fact.is_whole else 1


def _with_remark(fact: Fact, words: str, room: int) -> Fact:
    """The fact with a further remark, if it then has no more lines than there is room for.

    >>> _with_remark(Fact("runs", remark="1 kernel"), " (XLA counts 2)", 1).remark
    '1 kernel (XLA counts 2)'
    """
    longer = replace(fact, remark=f"{fact.remark}{words}", is_whole=True)
    return longer if _height_of_fact(longer) <= room else fact


def _within(facts: Sequence[Fact], room: int) -> Iterator[Fact]:
    """The facts, of which a screen shows those that fit, with a blank line before them.

    >>> facts = Fact("runs", remark="1 kernel"), Fact("files", remark="PTX (3)"), Fact("helpers", remark="2 modules")
    >>> [fact.label for fact in _within(facts, 3) if fact.person]
    ['runs', 'helpers']
    """
    heights = list(map(_height_of_fact, facts))
    hidden = set[int]()
    for label in _LEAST_NEEDED:
        for at in reversed(range(len(facts))):
            if facts[at].label == label and 1 + sum(heights) - sum(heights[each] for each in hidden) > room:
                hidden.add(at)
    yield from (replace(each, person=False) if at in hidden else each for at, each in enumerate(facts))


def _signature(loaded: Loaded) -> str:
    """The number and bytes of arguments and of results, and how many arguments give their memory to a result."""
    module = loaded.module
    parameters, root = module.entry.parameters, module.entry.root
    given = f"{len(parameters):,} ({format_bytes(sum(each.shape.padded_bytes for each in parameters))})"
    leaves = [] if root is None else [leaf for _, leaf in root.shape.leaves]
    results = format_count(len(leaves), "results")
    donated = len(module.input_output_alias)
    returned = f"{results} ({format_bytes(sum(leaf.padded_bytes for leaf in leaves))})"
    return f"{given}; {returned}; {f'{donated:,} donated' if donated else 'none donated'}"


def _largest_values(loaded: Loaded) -> Part:
    """The largest values, for a dump without lines of the program."""
    return next(part for part in report_of_module(loaded, "").parts if part.name == "values")


def _numbers(
    loaded: Loaded,
    memory: MemoryAnalysis,
    chip: Chip | None,
    steps: Report | None,
    findings: Report,
    others: Others | None,
) -> Mapping[str, Cell]:
    fits = memory_fits(memory, None, chip)
    main = memory.main
    return {
        "module": loaded.module.name,
        "instructions": loaded.module.instruction_count,
        "modules": 1 if others is None else len(others.results),
        "chip": None if chip is None else chip.name,
        "fits": all(fit.excess_bytes <= 0 for fit in fits) if fits else None,
        "space": None if main is None else main.name,
        "peak_bytes": memory.peak_bytes,
        "needed_bytes": 0 if main is None else needed_bytes(memory, main),
        "execution_seconds": None if steps is None else steps.numbers.get("execution_seconds"),
        **{name: findings.numbers.get(name) for name in ("errors", "warnings", "notes")},
    }


def _next(argument: str, *, fits: bool, groups: Sequence[FindingGroup], pairs: Report) -> tuple[str, ...]:
    """The two commands that say most that is not on this screen."""
    if not argument or argument == "-":
        return ()
    # without a chip, what overlaps no kernel is all that is known
    exposed = bool(number_of(pairs.numbers.get("exposed_transfers", pairs.numbers.get("unoverlapped"))))
    wanted = (
        (not fits, f"hlo memspace {argument}"),
        (len(groups) > 1, f"hlo lint {argument}"),
        (exposed, f"hlo schedule {argument}"),
        (fits, f"hlo memspace {argument}"),
        (True, f"hlo report {argument} {format_options((('-o', 'report.html'),))}"),
    )
    return tuple(line for is_wanted, line in wanted if is_wanted)[:2]


def _notes(loaded: Loaded) -> Iterator[Diagnostic]:
    """That numbers are bounds, if they are; which stage was read is told by the screen only if it is not the last."""
    if (devices := devices_together(loaded)) > 1:
        yield Diagnostic("note", f"the module is {not_partitioned(devices)}")
    elif (stage := stage_of(loaded)) != "optimized":
        yield Diagnostic("note", f"{stage}: numbers are upper bounds")
    if loaded.input.remark:
        yield Diagnostic("note", loaded.input.remark)
    # What an unknown operation costs is unknown, and a misspelled one is no program.
    yield from (note for note in loaded.module.notes if note.code == "unknown-opcode")
