"""Options of `hlo run`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from hlo_cli.analysis.evaluate.settings import DEFAULT_LIMITS, Limits, Wanted
from hlo_cli.commands.options.io_options import conflict_error
from hlo_cli.dataclass import dataclass
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.semantics.typed_values import Floats

DEFAULT_MEMORY = f"{DEFAULT_LIMITS.max_bytes >> 30}GiB"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Arguments, arithmetic, and limits; names are those of the command's parameters.

    With `fills`, arguments that `args` does not have are made up with the seed.
    """

    args: tuple[str, ...] = ()
    seed: int = 0
    fills: bool = False
    at: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    stub: tuple[str, ...] = ()
    feed: tuple[str, ...] = ()
    save_raw: str | None = None
    against: str | None = None
    passes: bool = False
    allow_uncovered: bool = False
    probe: Wanted | None = None
    floats: Floats = "exact"
    devices: int | None = None
    max_memory: str = DEFAULT_MEMORY
    max_operations: float = DEFAULT_LIMITS.max_operations
    max_iterations: int = DEFAULT_LIMITS.max_iterations
    max_seconds: float = DEFAULT_LIMITS.max_seconds

    def check(self) -> None:
        """Raises HloError for options that exclude each other."""
        given = [
            name
            for name, value in (
                ("--against", self.against is not None), ("--passes", self.passes), ("--probe", self.probe is not None),
                ("--at", bool(self.at)), ("--watch", bool(self.watch)),
            )
            if value
        ]  # fmt: skip
        if len(given) > 1:
            raise conflict_error(given[0], given[1])
        if self.allow_uncovered and given and given[0] not in ("--against", "--passes"):
            raise conflict_error("--allow-uncovered", given[0])
        if self.save_raw is not None and given and given != ["--at"]:
            raise conflict_error("--save-raw", given[0])
        if self.floats == "widen" and given and given[0] in ("--against", "--passes"):
            raise conflict_error("--floats widen", given[0])
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
