"""Options of `hlo memspace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hlo_cli.analysis.memory.live_ranges import Release
from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.query.module_summary import ProgramStage
from hlo_cli.commands.options.io_options import conflict_error, requirement_error
from hlo_cli.commands.shared.memory_timeline import EVERY_SPACE
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError
from hlo_cli.syntax.byte_sizes import parse_size

_REPORTS: Final = ("at", "value", "traffic", "compare", "oom")
_LIMITS: Final = ("limit", "chip")
_VIEWS: Final = ("space", "where")
_SUPPORTED: Final[dict[str, tuple[str, ...]]] = {
    "at": ("at", "space", "where", "by", "limit", "chip"),
    "value": ("value",),
    "traffic": ("traffic", "where"),
    "compare": ("compare", "chip"),
    "oom": ("oom",),
}
"""The options that can be used with each report."""


@dataclass(frozen=True, slots=True)
class MemspaceOptions:
    """The memory space, the step, the rows, and the limit that are selected."""

    space: str | None = None
    at: str | None = None
    value: str | None = None
    grouping: str = "value"
    where: str | None = None
    limit_bytes: int | None = None
    chip: str | None = None
    gate_unoptimized: bool = False
    traffic: bool = False
    compare: bool = False
    oom: str | None = None
    release: Release = "0.10.2"
    each: bool = False
    jobs: int | None = None

    def is_verdict(self, stage: ProgramStage) -> bool:
        """Whether exceeding the limit fails: always for an optimized program, before that only for an explicit limit.

        >>> on_chip, limited = MemspaceOptions(chip="v5e"), MemspaceOptions(limit_bytes=1)
        >>> on_chip.is_verdict("before optimization"), limited.is_verdict("before optimization")
        (False, True)
        """
        return stage == "optimized" or self.limit_bytes is not None or self.gate_unoptimized


def memspace_options(given: Mapping[str, Any]) -> MemspaceOptions:
    """The command's parameters, checked; HloError for options without effect."""
    _check_conflicts(given)
    if given["gate_unoptimized"] and given["chip"] is None:
        raise requirement_error("--gate-unoptimized", "--chip NAME", hint="--limit SIZE applies to every module")
    limit_bytes = parse_size(given["limit"]) if given["limit"] is not None else None
    if limit_bytes == 0:
        raise HloError("--limit must be greater than 0", hint="for example --limit 16GiB")
    own = {name: value for name, value in given.items() if name != "limit"}
    return MemspaceOptions(**own, limit_bytes=limit_bytes)


def about_one(options: Mapping[str, object]) -> tuple[str, ...]:
    """The given options that require a single module, as typed; rows of many modules support the others."""
    by = ("--by",) if options["grouping"] != "value" else ()
    spaces = ("--space all",) if options["space"] == EVERY_SPACE else ()
    if options["space"] and any(options[name] for name in _LIMITS):
        spaces = ("--space",)
    given = (f"--{name}" for name in (*_REPORTS, "where") if options[name])
    return (*given, *by, *spaces)


def _check_conflicts(options: Mapping[str, object]) -> None:
    """Raises HloError for an option that belongs to another report than the selected one."""
    by = () if options["grouping"] == "value" else ("by",)
    given = (*(name for name in (*_REPORTS, *_LIMITS, *_VIEWS) if options[name]), *by)
    reports = [name for name in given if name in _REPORTS]
    limits = [name for name in given if name in _LIMITS]
    if len(reports) > 1:
        raise conflict_error(f"--{reports[0]}", f"--{reports[1]}")
    if len(limits) > 1:
        raise conflict_error("--limit", "--chip")
    for report in reports:
        for name in given:
            if name not in _SUPPORTED[report]:
                raise conflict_error(f"--{name}", f"--{report}")


def step_of(memory: MemoryAnalysis, name: str) -> int:
    """The step at which the named instruction runs; HloError if it has no step of its own."""
    instruction = memory.module.instruction(name)
    if instruction not in memory.positions:
        inside = instruction.computation.name
        raise HloError(
            f"'{instruction.name}' has no step of its own: it is part of {inside}",
            hint=f"use the instruction that calls {inside}",
        )
    return memory.positions[instruction]
