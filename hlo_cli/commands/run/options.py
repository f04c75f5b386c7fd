"""Options of `hlo run`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

import click

from hlo_cli.analysis.evaluate.settings import DEFAULT_LIMITS, PROBES, Limits, Wanted
from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import argument, flag, option
from hlo_cli.commands.options.io_options import check_options
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError, joined_by_or

if TYPE_CHECKING:
    from hlo_cli.analysis.semantics.typed_values import Floats

DEFAULT_MEMORY = f"{DEFAULT_LIMITS.max_bytes >> 30}GiB"


_OF_RESULTS: Final = ("--allow-uncovered", "--save-raw")
"""Options on the results of a whole run, which a report on single values has none of."""
_TWO_STAGES: Final = "--stage A..B"
"""A comparison of two stages of one dump, as `--against` is of two dumps."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Arguments, arithmetic, and limits.

    With `fills`, arguments that `args` does not have are made up with the seed. `stages` are the two of `--stage A..B`.
    """

    fills: bool = False
    stages: tuple[str, str] | None = argument("--stage")
    args: tuple[str, ...] = option(
        "--args",
        "FILE",
        group="Arguments",
        is_common=True,
        multiple=True,
        complete=completion.files,
        help="Read arguments from FILE: .npz, one .npy each, .json, or raw:FILE@SHAPE; repeatable.",
    )
    seed: int = option(
        "--seed",
        "N",
        default=0,
        is_computed=True,
        group="Arguments",
        is_common=True,
        least=0,
        default_text="0",
        help="Make up arguments with seed N; with --args, those that FILE does not have.",
    )
    feed: tuple[str, ...] = option(
        "--feed",
        "FILE",
        group="Arguments",
        multiple=True,
        complete=completion.files,
        help="Read the data of infeeds from FILE: .npz, .npy, or .json; repeatable.",
    )
    stub: tuple[str, ...] = option(
        "--stub",
        "TARGET=FILE.py",
        group="Arguments",
        multiple=True,
        complete=completion.files,
        help="Run the function `stub` of FILE.py for custom calls of TARGET; repeatable.",
    )
    at: tuple[str, ...] = option(
        "--at",
        "NAME",
        group="Reports",
        is_common=True,
        multiple=True,
        complete=completion.instructions,
        help="Show the value of this instruction in each execution; repeatable.",
        excludes=("--against", "--passes", "--probe", "--allow-uncovered", _TWO_STAGES),
    )
    watch: tuple[str, ...] = option(
        "--watch",
        "NAME",
        group="Reports",
        is_common=True,
        multiple=True,
        complete=completion.instructions,
        help="Show a summary of this instruction in each loop iteration; repeatable.",
        excludes=("--against", "--passes", "--probe", "--at", *_OF_RESULTS, _TWO_STAGES),
    )
    save_raw: str | None = option(
        "--save-raw",
        "FILE",
        group="Reports",
        complete=completion.files,
        help="Write the bytes in memory of the value of --at, or of result 0, to FILE.",
        excludes=(_TWO_STAGES,),
    )
    against: str | None = option(
        "--against",
        "DUMP",
        group="Reports",
        is_common=True,
        complete=completion.files,
        help="Compare the results with those of this module.",
        excludes=("--save-raw", "--floats widen"),
    )
    passes: bool = flag(
        "--passes",
        group="Reports",
        is_common=True,
        help="Show which compiler passes change the results, from per-pass dumps.",
        excludes=("--against", "--save-raw", "--floats widen", _TWO_STAGES),
    )
    allow_uncovered: bool = flag(
        "--allow-uncovered",
        group="Reports",
        help="Exit with 0 although parts were never compared, if all results agree.",
    )
    probe: Wanted | None = option(
        "--probe",
        "KIND",
        group="Reports",
        is_common=True,
        choices=tuple(PROBES),
        help=f"Find the instruction whose elements of this kind reach a result: {joined_by_or(tuple(PROBES))}.",
        excludes=("--against", "--passes", *_OF_RESULTS, _TWO_STAGES),
    )
    floats: Floats = option(
        "--floats",
        "MODE",
        group="Arithmetic",
        is_common=True,
        choices=("exact", "widen"),
        default="exact",
        help="Round floats to their types (exact), or use f64 without rounding (widen).",
        excludes=(_TWO_STAGES,),
        only_for="widen",
    )
    devices: int | None = option(
        "--devices",
        "N",
        group="Arithmetic",
        is_common=True,
        least=1,
        default_text="those of the module",
        help="Simulate N devices for a module that does not state their number.",
    )
    max_memory: str = option(
        "--max-memory", "SIZE", group="Limits", default=DEFAULT_MEMORY, help="Refuse modules that need more memory."
    )
    max_operations: float = option(
        "--max-operations",
        "N",
        group="Limits",
        type=click.FloatRange(min=1),
        default=float(DEFAULT_LIMITS.max_operations),
        default_text=f"{DEFAULT_LIMITS.max_operations:.0e}".replace("+", ""),
        help="Refuse modules with more scalar operations.",
    )
    max_iterations: int = option(
        "--max-iterations",
        "N",
        group="Limits",
        least=1,
        default=DEFAULT_LIMITS.max_iterations,
        default_text=f"{DEFAULT_LIMITS.max_iterations:,}",
        help="Stop at a loop with more iterations.",
    )
    max_seconds: float = option(
        "--max-seconds",
        "N",
        group="Limits",
        type=click.FloatRange(min=0),
        default=DEFAULT_LIMITS.max_seconds,
        default_text=f"{DEFAULT_LIMITS.max_seconds:g}",
        help="Stop after N seconds.",
    )

    def check(self) -> None:
        """Raises HloError for options that exclude each other."""
        check_options(self)
        for name, limit in (("--max-operations", self.max_operations), ("--max-seconds", self.max_seconds)):
            if not isfinite(limit):
                raise HloError(f"{name} requires a finite number")

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        from hlo_cli.syntax.byte_sizes import parse_size

        return Limits(
            parse_size(self.max_memory), int(self.max_operations), self.max_iterations, float(self.max_seconds)
        )
