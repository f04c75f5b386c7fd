"""One module of many in numbers: a row of the index."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.memory.memory_analysis import memory_fits
from hlo_cli.commands.modules.loading import devices_together
from hlo_cli.commands.report.exposed import exposed_of
from hlo_cli.commands.report.sources import Sources
from hlo_cli.commands.report.subject import platform_of
from hlo_cli.commands.shared.memory_timeline import chosen_spaces
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.memory_space import MemorySpace
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.report.table import UNKNOWN, Cell, Column, Row, number_of


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """The numbers of one module: of main memory if the chip limits it, else of the memory with the highest peak.

    `fits` is None without a limit, and if it is unknown for a module that is not the final program. `page` is the name
    of its page. `devices` is the number of devices whose work the numbers hold together.
    """

    module: str
    chip: str | None
    is_final: bool
    space: str | None
    peak_bytes: int
    needed_bytes: int | None
    limit_bytes: int | None
    fits: bool | None
    execution_seconds: float | None
    exposed_seconds: float | None
    exposed_share: float | None
    exposed_bytes: int
    padding: float
    saving_bytes: int
    errors: int
    warnings: int
    notes: int
    devices: int = 1
    page: str | None = None

    def cells(self, columns: Sequence[Column]) -> Row:
        """The cells of some columns, which have the names of the fields."""
        return tuple(self._cell(column.name) for column in columns)

    def _cell(self, name: str) -> Cell:
        cell: Cell = getattr(self, name)
        return UNKNOWN if cell is None and name in ("exposed_seconds", "exposed_share", "execution_seconds") else cell


def summary_of(sources: Sources, chip: str | None) -> ModuleSummary:
    """The numbers of a module, as its page has them."""
    memory = sources.memory_analysis
    fits = memory_fits(memory, None, sources.memory_chip)
    worst = max(fits, key=lambda fit: fit.needed_bytes / fit.limit_bytes, default=None)
    main = next((fit for fit in fits if fit.space == MemorySpace.MAIN), worst)
    shown = worst if worst is not None and worst.excess_bytes > 0 else main
    space = memory.space(shown.space) if shown is not None else next(iter(chosen_spaces(memory, None)), None)
    is_final = sources.stage == "optimized"
    exposed = exposed_of(sources.schedule)
    padded, padding = (_count(sources.padding.numbers.get(name)) for name in ("padded_bytes", "padding_bytes"))
    found = sources.findings.numbers
    return ModuleSummary(
        sources.loaded.module.name,
        platform_of(sources.loaded, chip) or None,
        is_final,
        None if space is None else space.name,
        0 if space is None else space.peak_bytes,
        None if shown is None else shown.needed_bytes,
        None if shown is None else shown.limit_bytes,
        None if shown is None else shown.excess_bytes <= 0 or (False if is_final else None),
        number_of(sources.schedule.numbers.get("execution_seconds")),
        exposed.seconds,
        exposed.share,
        exposed.bytes,
        padding / padded if padded else 0.0,
        _count(sources.padding.numbers.get("saving_bytes")),
        _count(found.get("errors")),
        _count(found.get("warnings")),
        _count(found.get("notes")),
        devices_together(sources.loaded),
    )


def columns_of(summaries: Sequence[ModuleSummary], *, has_pages: bool) -> tuple[Column, ...]:
    """The columns of the index; those of times need a chip, and those of limits a limit."""
    has_limit = any(each.limit_bytes is not None for each in summaries)
    has_times = any(each.execution_seconds is not None for each in summaries)
    times = (
        Column("execution_seconds", "est. time", "seconds"),
        Column("exposed_seconds", "exposed", "seconds", role="waste"),
        Column("exposed_share", "exposed", "percent", role="waste"),
    )
    return (
        Column("page", "page", "page", person=has_pages),
        Column("chip", "chip"),
        Column("space", "space"),
        Column("peak_bytes", "peak", "bytes"),
        Column("needed_bytes", "needed", "bytes", person=has_limit),
        Column("limit_bytes", "limit", "bytes", person=has_limit),
        Column("fits", "fits", "flag", person=has_limit),
        *(times if has_times else ()),
        Column("exposed_bytes", "exposed", "bytes", role="waste", person=not has_times),
        Column("padding", "padding", "percent", role="waste"),
        Column("saving_bytes", "saving", "bytes", role="saving"),
        Column("errors", "errors", "count"),
        Column("warnings", "warnings", "count"),
        Column("notes", "notes", "count", person=False),
    )


def answer_of(summaries: Sequence[ModuleSummary]) -> str:
    """How many modules there are, how many do not fit or have errors, and which needs most memory."""
    number = format_count(len(summaries), "modules")
    failing = sum(each.fits is False for each in summaries)
    errors, warnings = (sum(getattr(each, name) for each in summaries) for name in ("errors", "warnings"))
    fullest = max(summaries, key=lambda each: each.peak_bytes, default=None)
    words = []
    if failing:
        words.append(f"{failing:,} {'does' if failing == 1 else 'do'} not fit")
    elif summaries and all(each.fits for each in summaries):
        words.append("all fit" if len(summaries) > 1 else "it fits")
    if fullest is not None and fullest.space is not None:
        words.append(f"highest peak is {format_bytes(fullest.peak_bytes)} of {fullest.space} in {fullest.module}")
    words += [format_count(count, noun) for count, noun in ((errors, "errors"), (warnings, "warnings")) if count]
    return f"{number}: {'; '.join(words)}" if words else number


def _count(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0
