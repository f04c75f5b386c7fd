"""The options of `hlo memspace`: the memory space, the step, the rows, and the limit that are selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import (
    by_option,
    each_option,
    flag,
    jobs_option,
    option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import check_options, given_about, given_in
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_table import Chip
    from hlo_cli.analysis.memory.live_ranges import Release
    from hlo_cli.analysis.query.module_summary import ProgramStage
    from hlo_cli.inputs.input import Input

EVERY_SPACE: Final = "all"
RELEASES: Final[tuple[Release, ...]] = ("0.10.2", "2026-08")
_LIMITS: Final = ("--limit", "--chip")


@dataclass(frozen=True, slots=True)
class MemspaceOptions:
    """The memory space, the step, the rows, and the limit that are selected."""

    grouping: str = by_option("Group by", before=("value",), after=("op_name", "kind", "shape", "opcode"), about="one")
    at: str | None = option(
        "--at",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Show values that are live at this instruction instead of at the peak.",
        about="one",
        one_of="report",
    )
    value: str | None = option(
        "--value",
        "NAME",
        group="Reports",
        is_common=True,
        complete=completion.instructions,
        help="Show live range, uses, and allocation of a value: NAME, or NAME{1} for a tuple element.",
        about="one",
        one_of="report",
        excludes=(*_LIMITS, "--space", "--where", "--by"),
    )
    traffic: bool = flag(
        "--traffic",
        group="Reports",
        is_common=True,
        help="List transfers between memory spaces and how early each one is issued.",
        about="one",
        one_of="report",
        excludes=(*_LIMITS, "--space", "--by"),
    )
    compare: bool = flag(
        "--compare",
        group="Reports",
        help="Compare the computed numbers with the compiler's buffer assignment.",
        about="one",
        one_of="report",
        excludes=("--limit", "--space", "--where", "--by"),
    )
    oom: str | None = option(
        "--oom",
        "FILE",
        group="Reports",
        is_common=True,
        complete=completion.files,
        help="Explain an out-of-memory error message (- for stdin).",
        about="one",
        one_of="report",
        excludes=("--space", "--where", "--by"),
    )
    space: str | None = option(
        "--space",
        "SPACE",
        group="Filters",
        is_common=True,
        default_text="largest peak",
        complete=completion.memory_spaces,
        help="Show this memory space, by name (HBM, VMEM) or number, or `all` of them.",
    )
    where: str | None = where_option(about="one")
    limit: str | None = option(
        "--limit",
        "SIZE",
        group="Limits",
        is_common=True,
        help="Exit with code 1 if the module needs more than SIZE, such as 16GiB.",
        one_of="limit",
    )
    chip: str | None = option(
        "--chip",
        "NAME",
        group="Limits",
        is_common=True,
        complete=completion.chips,
        help="Exit with code 1 if an optimized module does not fit this chip, such as v5e or h100.",
        one_of="limit",
    )
    gate_unoptimized: bool = flag(
        "--gate-unoptimized",
        group="Limits",
        help="Apply --chip to modules before optimization as well.",
        needs="--chip NAME",
        needs_hint="--limit SIZE applies to every module",
    )
    release: Release = option(
        "--xla-release",
        "NAME",
        group="Model",
        choices=RELEASES,
        default=RELEASES[0],
        help=f"Follow the buffer assignment rules of this XLA release: {joined_by_or(RELEASES)}.",
    )
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    @property
    def limit_bytes(self) -> int | None:
        """The bytes of --limit; HloError for a text that is not a size."""
        from hlo_cli.syntax.byte_sizes import parse_size

        return None if self.limit is None else parse_size(self.limit)

    @property
    def has_limit(self) -> bool:
        """Whether --limit or --chip is given."""
        return self.limit is not None or self.chip is not None

    def limiting_chip(self, dump: Input) -> Chip | None:
        """The chip whose memory is the limit: the selected one, or without any limit the one that the dump names."""
        from hlo_cli.analysis.hardware.chips import find_chip
        from hlo_cli.commands.options.chips import chip_of

        name = self.chip if self.has_limit else chip_of(dump, None)
        return find_chip(name) if name is not None else None

    @property
    def about_one(self) -> tuple[str, ...]:
        """The given options that require a single module, as typed; rows of many modules support the others."""
        spaces = ("--space all",) if self.space == EVERY_SPACE else ()
        if self.space and given_in(self, "limit"):
            spaces = ("--space",)
        return (*given_about(self, "one"), *spaces)

    def check(self) -> None:
        """Raises HloError for options without effect, and for a limit that nothing fits."""
        check_options(self)
        if self.limit_bytes == 0:
            raise HloError("--limit must be greater than 0", hint="for example --limit 16GiB")

    def is_verdict(self, stage: ProgramStage) -> bool:
        """Whether exceeding the limit fails: always for an optimized program, before that only for an explicit limit.

        >>> on_chip, limited = MemspaceOptions(chip="v5e"), MemspaceOptions(limit="1")
        >>> on_chip.is_verdict("before optimization"), limited.is_verdict("before optimization")
        (False, True)
        """
        return stage == "optimized" or self.limit_bytes is not None or self.gate_unoptimized
