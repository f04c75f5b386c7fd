"""Options of `hlo fuse`; those without effect are errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.chips import chip_file_option, chip_option
from hlo_cli.commands.options.declaring import (
    argument,
    by_option,
    each_option,
    flag,
    jobs_option,
    option,
    timeout_option,
    where_option,
)
from hlo_cli.commands.options.io_options import check_options, conflict_error
from hlo_cli.dataclass import dataclass
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.commands.options.declaring import Rules

PASSES: Final = (
    *("splitk-rewriter", "triton-gemm-rewriter", "hoist-fused-bitcasts", "gemm-fusion-swap-operands"),
    *("triton-softmax-rewriter", "priority-fusion", "multi_output_fusion"),
)
"""Passes of XLA:GPU that --pass runs alone, in their order."""
SWITCHES: Final = ("cpu", "multi-output", "no-duplication", "guard-softmax", "wrap-transpose", "no-wrap")


@dataclass(frozen=True, slots=True)
class RefusionOptions:
    """Changes to make: fuse by the rules, fuse the given instructions, or unfuse the given fusions."""

    apply: bool = False
    fuse: tuple[str, ...] = ()
    keep: bool = False
    into: str | None = None
    unfuse: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    chip: str | None = None
    is_chip_of_dump: bool = False
    only: str | None = None

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs whose compiler decides: those of --chip, unless rules of the CPU compiler are named."""
        # --fusion-rules names rules of the CPU compiler, which then decides whatever the chip
        if not self.chip or self.switches:
            return ()
        from hlo_cli.commands.fuse.gpu_dump import gpus_named

        return gpus_named(listed(self.chip))

    @property
    def gpu(self) -> str | None:
        """The first of the GPUs, None without one."""
        return next(iter(self.gpus), None)

    @property
    def is_requested(self) -> bool:
        """Whether any change is selected."""
        return self.apply or bool(self.fuse or self.into or self.unfuse)

    @property
    def option_name(self) -> str:
        """The first of the options that select a change."""
        return "--run-pass" if self.apply else "--unfuse" if self.unfuse else "--fuse"

    @property
    def option(self) -> str:
        """The options as typed."""
        words = ["--run-pass"] if self.apply else []
        words += [f"--unfuse {','.join(self.unfuse)}"] if self.unfuse else []
        words += [f"--fuse {','.join(self.fuse)}"] if self.fuse else []
        words += ["--keep"] if self.keep else []
        words += [f"--into {self.into}"] if self.into is not None else []
        words += [f"--fusion-rules {','.join(self.switches)}"] if self.switches else []
        words += [f"--pass {self.only}"] if self.only is not None else []
        words += [f"--chip {self.chip}"] if self.gpu is not None and not self.is_chip_of_dump else []
        return " ".join(words)

    def check(self) -> None:
        """Raises HloError for unknown rules."""
        if unknown := sorted(set(self.switches) - set(SWITCHES)):
            raise unknown_choice_error("fusion rule", unknown[0], SWITCHES)
        if self.only is not None and self.only not in PASSES:
            raise unknown_choice_error("pass", self.only, PASSES)
        if self.only is not None and self.switches:
            raise conflict_error("--fusion-rules", "--pass", hint="remove --fusion-rules: it is for CPU")
        if self.only is not None and self.gpu is None:
            raise HloError("--pass is for the passes of XLA:GPU", hint="add --chip GPU, such as --chip h100")


_LIST_CALLS: Final = "run `hlo fuse DUMP --custom-calls --where EXPR` to list calls"


def _rules_of_change(name: str) -> Rules:
    """The rules of an option that changes the whole module; several changes can be made at once."""
    excludes = {part: f"remove {part}: {name} changes the whole module" for part in ("--where", "--computation")}
    return {"one_of": "report/changes", "about": "one", "excludes": {"NAME": "", **excludes}}


@dataclass(frozen=True, slots=True)
class FuseOptions:
    """The report and the fusions that are selected; `name` is an argument, that of a fusion or a call."""

    # one fusion is one row, so that a filter could only hide it; calls and pairs may be several of a name
    name: str | None = argument(
        "NAME",
        about="one",
        excludes=("--where", "--computation"),
        unless=("--custom-calls", "--c-signature", "--why-not"),
    )
    is_chip_of_dump: bool = False
    cost: bool = flag(
        "--cost",
        group="Reports",
        is_common=True,
        help="List the cost of each instruction: flops, transcendentals, and bytes accessed.",
        one_of="report",
        about="one",
        excludes=("NAME",),
    )
    dots: bool = flag(
        "--dots",
        group="Reports",
        is_common=True,
        help="List matrix multiplications and convolutions with their sizes and types.",
        one_of="report",
        about="one",
        excludes=("NAME",),
    )
    grouping: str | None = by_option(
        "Show the cost of kernels by cause", one_of="report", about="one", excludes=("NAME",)
    )
    custom_calls: bool = flag(
        "--custom-calls",
        group="Reports",
        is_common=True,
        help="List custom calls, or decode the custom call NAME.",
        one_of="report/calls",
        about="one",
        excludes=("--chip", "--chip-file"),
    )
    why_not: bool = flag(
        "--why-not",
        group="Reports",
        is_common=True,
        help="List producer-consumer pairs that are not fused, and why; on GPU, XLA's own reasons.",
        one_of="report",
        about="one",
    )
    c_signature: bool = flag(
        "--c-signature",
        group="Reports",
        help="Print C declarations of all custom call targets, or of that of NAME.",
        one_of="report/calls",
        about="one",
        excludes={"--chip": "", "--chip-file": "", "--where": _LIST_CALLS},
    )
    as_xla: bool = flag(
        "--as-xla", group="Reports", help="Reproduce XLA's float32 results bit for bit (with --cost).", needs="--cost"
    )
    pair: str | None = option(
        "--fuse",
        "A,B",
        group="Changes",
        is_common=True,
        complete=completion.instructions,
        help="Fuse A into B, or siblings A and B, and show a diff.",
        **_rules_of_change("--fuse"),
    )
    unfuse: str | None = option(
        "--unfuse",
        "NAME|all",
        group="Changes",
        is_common=True,
        complete=completion.instructions,
        help="Expand this fusion, or all fusions, and show a diff.",
        **_rules_of_change("--unfuse"),
    )
    apply: bool = flag(
        "--run-pass",
        unlisted="--apply",
        group="Changes",
        is_common=True,
        help="Run the passes for CPU, or for --chip; show a diff.",
        **_rules_of_change("--run-pass"),
    )
    into: str | None = option(
        "--into",
        "FUSION",
        group="Changes",
        complete=completion.instructions,
        help="Fuse the instructions of --fuse into this existing fusion.",
        needs="--fuse A,B",
    )
    keep: bool = flag(
        "--keep",
        group="Changes",
        help="Make A of --fuse an extra output of the fusion instead of duplicating A.",
        needs="--fuse A,B",
    )
    fusion_rules: str | None = option(
        "--fusion-rules",
        "LIST",
        group="Changes",
        complete=partial(completion.some_of, lambda: SWITCHES),
        help="Change the rules of --run-pass and --why-not (comma-separated; values below).",
        about="one",
        needs="--run-pass or --why-not",
    )
    only: str | None = option(
        "--pass",
        "NAME",
        group="Changes",
        complete=partial(completion.some_of, lambda: PASSES),
        help="Run only this pass of XLA:GPU (with --run-pass).",
        about="one",
        needs="--run-pass",
    )
    verify: bool = flag(
        "--verify",
        group="Changes",
        help="Run the old and new module, and compare results (with --fuse, --unfuse, or --run-pass).",
        needs="--fuse, --unfuse, or --run-pass",
        or_needs=("--into",),
    )
    where: str | None = where_option(about="one")
    computation: str | None = option(
        "--computation",
        "NAME",
        group="Filters",
        complete=completion.computations,
        about="one",
        help="Include only instructions in this computation.",
    )
    chip: str | None = chip_option("Estimate time and bottleneck on this chip")
    chip_file: str | None = chip_file_option()
    each: bool = each_option()
    jobs: int | None = jobs_option()
    timeout: int | None = timeout_option()

    @property
    def changes(self) -> RefusionOptions:
        """The fusions to make or to unfuse."""
        return RefusionOptions(
            apply=self.apply,
            fuse=listed(self.pair),
            keep=self.keep,
            into=self.into,
            unfuse=listed(self.unfuse),
            switches=listed(self.fusion_rules),
            chip=self.chip if self.chip_file is None else None,
            is_chip_of_dump=self.is_chip_of_dump,
            only=self.only,
        )

    @property
    def is_about_calls(self) -> bool:
        """Whether the report is on custom calls."""
        return self.custom_calls or self.c_signature

    @property
    def is_one_fusion(self) -> bool:
        """Whether the report is on a single fusion."""
        return self.name is not None and not self.is_about_calls and not self.why_not

    @property
    def pair_names(self) -> tuple[str, ...]:
        """The instruction, or the producer and the consumer, to which --why-not is limited by NAME."""
        names = listed(self.name)
        # a decision is on one edge: a producer and a consumer
        if len(names) > 2:
            raise HloError(f"--why-not takes at most two names, found {len(names)}", hint="write PRODUCER,CONSUMER")
        return tuple(name.removeprefix("%") for name in names)

    @property
    def is_of_parts(self) -> bool:
        """Whether a truncated module is enough for the report; the kernels of a module require its entry."""
        return self.name is not None or self.dots or self.is_about_calls or self.computation is not None

    def check(self) -> None:
        """Raises HloError for options that conflict or that require another option.

        >>> FuseOptions(cost=True, dots=True).check()
        Traceback (most recent call last):
            ...
        hlo_cli.source.HloError: error: --cost cannot be used with --dots
          help: use only one of them
        """
        check_options(self)
        self.changes.check()
        if len(listed(self.chip)) > 1:
            self._check_chips()
        if self.custom_calls and self.where is not None and self.name is not None:  # a name selects one call
            raise conflict_error("--where", "NAME", hint=_LIST_CALLS)

    def _check_chips(self) -> None:
        """Several chips are compared by what XLA:GPU would fuse for each."""
        hint = "select one chip, or add --why-not or --run-pass to compare GPUs"
        if not (self.why_not or self.apply):
            raise HloError("--chip takes several chips only with --why-not or --run-pass", hint=hint)
        if self.changes.switches:
            raise conflict_error("--fusion-rules", "several chips in --chip", hint="select one chip")
        other = "--fuse" if self.pair else "--unfuse" if self.unfuse else "--verify" if self.verify else None
        if other is not None:
            raise conflict_error(other, "several chips in --chip", hint="select one chip")


def listed(names: str | None) -> tuple[str, ...]:
    """The parts of a comma-separated list.

    >>> listed("h100, a100"), listed(None)
    (('h100', 'a100'), ())
    """
    return tuple(name.strip() for name in names.split(",") if name.strip()) if names is not None else ()
