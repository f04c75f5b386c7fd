"""`hlo memspace` of many dumps: memory usage of each module, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.memory.memory_analysis import (
    MemoryAnalysis,
    MemoryFit,
    MemorySpaceUsage,
    allocated_bytes,
    memory_fits,
)
from hlo_cli.analysis.query.module_summary import ProgramStage
from hlo_cli.commands.memspace.options import MemspaceOptions
from hlo_cli.commands.modules.loading import Loaded, Many, check_running, devices_together, part_error, stage_of
from hlo_cli.commands.modules.many import Rows, finish_each, map_inputs
from hlo_cli.commands.options.io_options import InputOptions, OutputOptions
from hlo_cli.commands.shared.compiler_memory import compiler_memory
from hlo_cli.commands.shared.memory_timeline import chosen_spaces, named_space, step_label
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.files import STDIN
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row
from hlo_cli.source import HloError


@dataclass(frozen=True, slots=True)
class _Usage:
    """Usage of the critical memory space of one module; `fits` is None if unknown or without a limit."""

    module: str
    stage: ProgramStage
    space: str | None
    logical_bytes: int
    peak_bytes: int
    allocated_bytes: int | None
    needed_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    peak_instruction: str | None
    steps: int
    devices: int

    @property
    def share(self) -> float | None:
        """The share of the limit that is used; above 1 if the module does not fit."""
        return self.needed_bytes / self.limit_bytes if self.limit_bytes and self.needed_bytes is not None else None

    @property
    def in_words(self) -> str:
        """The bytes that the module needs, and the limit."""
        return f"{self.module} needs {format_bytes(self.needed_bytes or 0)} of {format_bytes(self.limit_bytes or 0)}"


@dataclass(frozen=True, slots=True)
class _Ask:
    """Computes the memory usage of one module as numbers; called for every module."""

    options: MemspaceOptions

    def __call__(self, module: Module, given: Input) -> _Usage:
        check_running(module)
        loaded = Loaded(module, given)
        stage = stage_of(loaded)
        memory = compiler_memory(loaded, chip=self.options.chip, release=self.options.release)
        chip = find_chip(self.options.chip) if self.options.chip is not None else None
        fits = memory_fits(memory, self.options.limit_bytes, chip)
        fit = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes, default=None)
        if module.is_part and self._verdict(fit, stage):
            raise HloError.of((part_error(given.path or STDIN),))
        space = self._space(memory, fit)
        live = space.live_at(space.peak) if space is not None else ()
        return _Usage(
            module.name,
            stage,
            space.name if space is not None else None,
            sum(value.logical_bytes for value in live),
            space.peak_bytes if space is not None else 0,
            allocated_bytes(memory, space) if space is not None else 0,
            fit.needed_bytes if fit is not None else None,
            fit.limit_bytes if fit is not None else None,
            self._verdict(fit, stage),
            step_label(memory, space.peak) if space is not None else None,
            len(memory.sequence),
            devices_together(loaded),
        )

    def _space(self, memory: MemoryAnalysis, fit: MemoryFit | None) -> MemorySpaceUsage | None:
        """The selected space, else the one nearest to its limit, else the fullest; None without any."""
        if self.options.space is not None:
            return named_space(memory, self.options.space)
        if fit is not None:
            return next(space for space in memory.spaces if space.number == fit.space)
        return next(iter(chosen_spaces(memory, None)), None)

    def _verdict(self, fit: MemoryFit | None, stage: ProgramStage) -> bool | None:
        if fit is None or (fit.excess_bytes > 0 and not self.options.is_verdict(stage)):
            return None
        return fit.excess_bytes <= 0


def memspace_each(many: Many, reading: InputOptions, options: MemspaceOptions, output: OutputOptions) -> int:
    """Writes the table, highest usage of the limit or of memory first, and returns the exit code."""
    if options.chip is not None:
        find_chip(options.chip)
    found = list(map_inputs(many, reading, options.jobs, _Ask(options)))
    usages = [each.answer for each in found if each.answer is not None]
    if options.space is not None and usages and all(usage.space is None for usage in usages):
        raise HloError(
            f"no module has values in memory space '{options.space}'",
            hint="remove --space to show the space with the highest peak",
        )
    has_limit = options.limit_bytes is not None or options.chip is not None
    return finish_each(
        "memspace",
        found,
        Rows(
            _columns(has_limit=has_limit, has_bounds=any(usage.stage != "optimized" for usage in usages)),
            _cells,
            by="limit_share" if has_limit else "peak_bytes",
            fails=lambda usage: usage.fits is False,
            devices=lambda usage: usage.devices,
        ),
        answer=_answer(usages, has_limit=has_limit),
        numbers=_numbers(usages, has_limit=has_limit),
        unfinished=sum(usage.stage != "optimized" for usage in usages),
        output=output,
    )


def _columns(*, has_limit: bool, has_bounds: bool) -> tuple[Column, ...]:
    return (
        Column("program_stage", "program", from_width=120, person=has_bounds),
        Column("upper_bound", "upper bound", "flag", person=has_bounds),
        Column("space", "space"),
        Column("logical_bytes", "data", "bytes", person=False),
        Column("peak_bytes", "live peak", "bytes"),
        Column("padding", "padding", "percent", role="waste", from_width=120),
        Column("allocated_bytes", "allocated", "bytes", person=not has_limit),
        Column("needed_bytes", "needed", "bytes", person=has_limit),
        Column("limit_bytes", "limit", "bytes", person=has_limit),
        Column("limit_share", "of limit", "percent", person=has_limit, from_width=120),
        Column("fits", "fits", "flag", person=has_limit),
        Column("steps", "steps", "count", from_width=120),
        Column("peak_instruction", "at instruction", "name", rank=4),
    )


def _cells(usage: _Usage) -> Row:
    return (
        usage.stage,
        usage.stage != "optimized",
        usage.space,
        usage.logical_bytes,
        usage.peak_bytes,
        1 - usage.logical_bytes / usage.peak_bytes if usage.peak_bytes else 0.0,
        UNKNOWN if usage.allocated_bytes is None else usage.allocated_bytes,
        usage.needed_bytes,
        usage.limit_bytes,
        usage.share,
        UNKNOWN if usage.fits is None and usage.limit_bytes is not None else usage.fits,
        usage.steps,
        usage.peak_instruction,
    )


def _answer(usages: Sequence[_Usage], *, has_limit: bool) -> str:
    number = format_count(len(usages), "modules")
    limited = [usage for usage in usages if usage.share is not None]
    if has_limit and limited:
        return _verdict(usages, limited)
    fullest = max(usages, key=lambda usage: usage.peak_bytes, default=None)
    if fullest is None or fullest.space is None:
        return f"{number}: no values are stored in memory"
    return f"{number}: highest peak is {format_bytes(fullest.peak_bytes)} of {fullest.space} in {fullest.module}"


def _verdict(usages: Sequence[_Usage], limited: Sequence[_Usage]) -> str:
    """How many modules fit, and the usage of one: the worst that does not or may not fit, else the fullest."""
    failing = [usage for usage in limited if usage.fits is False]
    unknown = [usage for usage in limited if usage.fits is None]
    words = max(failing or unknown or limited, key=lambda usage: usage.share or 0.0).in_words
    number = format_count(len(usages), "modules")
    undecided = f"; unknown for {len(unknown):,}" if unknown else ""
    if failing:
        verb = "does" if len(failing) == 1 else "do"
        return f"{len(failing):,} of {number} {verb} not fit: {words}{undecided}"
    fitting = len(usages) - len(unknown)
    all_of = f"All {number}" if fitting == len(usages) > 1 else f"{fitting:,} of {number}"
    return f"{all_of} {'fits' if fitting == 1 else 'fit'}{undecided}: {words} at most"


def _numbers(usages: Sequence[_Usage], *, has_limit: bool) -> dict[str, Cell]:
    if not has_limit:
        return {}
    verdicts = {usage.fits for usage in usages if usage.limit_bytes is not None}
    fits = False if False in verdicts else None if None in verdicts else True
    return {"fits": fits, "failing": sum(usage.fits is False for usage in usages)}
