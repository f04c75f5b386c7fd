"""Two modules run with the same arguments: whether they compute the same, and where they begin to differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from hlo_cli.analysis.evaluate.arguments import made_up_arguments
from hlo_cli.analysis.evaluate.compare import Distance, Verdict, distances, verdict_of
from hlo_cli.analysis.evaluate.host import Host, Stub, check_outfeeds
from hlo_cli.analysis.evaluate.parting import Known, Parting, Recorder, first_parting
from hlo_cli.analysis.evaluate.run import Run, evaluate, run, runs_on_devices
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.evaluate.unknown_functions import unknown_functions
from hlo_cli.analysis.semantics.number_types import Array, Floats
from hlo_cli.analysis.semantics.values import Value
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape
from hlo_cli.source import HloError

_MODES: Final[tuple[Floats, Floats]] = ("exact", "widen")


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The distance of each result, in the order of the results, and the first instruction at which the modules part.

    `first_difference` is None if the modules compute the same, and if the instruction is unknown. `executed` counts
    the instructions of all runs. `assumed` are the targets of unknown meaning that both call, whose results were made
    up: the same for equal operands.
    """

    distances: tuple[Distance, ...]
    first_difference: Parting | None
    executed: int
    assumed: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on all results: that of the worst."""
        return verdict_of(self.distances)

    @property
    def is_same(self) -> bool:
        """Whether the results are identical, or differ by rounding only."""
        return self.verdict in ("identical", "rounding")


def compare_runs(
    old: Module,
    new: Module,
    args: Sequence[Value] | None = None,
    *,
    seed: int = 0,
    devices: int | None = None,
    limits: Limits | None = None,
    is_rewrite: bool = False,
    progress: Callable[[int], None] | None = None,
    stubs: Mapping[str, Stub] | None = None,
    feed: Sequence[Array] | None = None,
) -> RunComparison:
    """Runs two modules with the same arguments, made-up ones by default, and compares their results.

    Each module runs twice: with floats of their types, and with every float as an f64 that is never rounded. Two
    compilations of a program agree in the second run even if they round at different places. With `is_rewrite`, the
    results are on the same devices, even if the place of a result is unknown. `stubs` and `feed` are for both modules,
    as for `run`. Custom calls of unknown meaning that both modules have return made-up values, the same in both for
    equal operands. HloError as for `run`, for outfeeds, and if the modules have other numbers of parameters or results.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[2] parameter(0)  q = f32[2] multiply(p, p)  ROOT r = f32[2] negate(q) }"
    >>> old, new = parse_module(text), parse_module(text.replace("multiply", "add"))
    >>> compare_runs(old, old).verdict
    'identical'
    >>> found = compare_runs(old, new)
    >>> found.verdict, found.first_difference.instruction
    ('different', <add q>)
    """
    shapes = tuple(_result_shape(each) for each in (old, new))
    parameters = [len(each.entry.parameters) for each in (old, new)]
    if parameters[0] != parameters[1]:
        raise HloError(f"the modules have {parameters[0]} and {parameters[1]} parameters")
    results = [sum(1 for _ in shape.leaves) for shape in shapes]
    if results[0] != results[1]:
        raise HloError(f"the modules have {results[0]} and {results[1]} results")
    for module in (old, new):
        check_outfeeds(module)

    unknowns = unknown_functions(old, new)
    runner = partial(
        run, args=args, seed=seed, devices=devices, limits=limits, progress=progress, stubs=stubs, feed=feed
    )

    def both(floats: Floats) -> tuple[Run, Run]:
        first, second = unknowns()
        return runner(old, floats=floats, unknown=first), runner(new, floats=floats, unknown=second)

    exact, widened = map(both, _MODES)
    found = distances(exact, widened, (shapes[0], shapes[1]), is_rewrite=is_rewrite)
    parting = None
    if verdict_of(found) in ("approximation", "different"):
        hosts = [Host(stubs, feed, unknown=each) for each in unknowns()]
        parting = _parting(old, new, found, args, seed, limits, progress, hosts)
    assumed = tuple(each for each in unknowns()[0].targets if each not in (stubs or {}))
    return RunComparison(found, parting, sum(each.executed for each in (*exact, *widened)), assumed)


def _result_shape(module: Module) -> Shape:
    root = module.entry.root
    if root is None:
        raise HloError(f"the entry of {module.name} has no instructions")
    return root.shape


def _parting(
    old: Module,
    new: Module,
    found: Sequence[Distance],
    args: Sequence[Value] | None,
    seed: int,
    limits: Limits | None,
    progress: Callable[[int], None] | None,
    hosts: Sequence[Host],
) -> Parting | None:
    """Where the values of the new module begin to differ, from its worst result back; None if that cannot be told."""
    if runs_on_devices(old) or runs_on_devices(new):
        return None
    worst = max(found, key=lambda each: each.widened)
    known, recorded = Recorder(), Recorder()
    for module, recorder, host in zip((old, new), (known, recorded), hosts, strict=True):
        evaluate(module, args, seed=seed, floats="widen", observe=recorder, limits=limits, progress=progress, host=host)
    given = made_up_arguments(old, seed=seed, floats="widen") if args is None else args
    assert new.entry.root is not None
    return first_parting(new.entry.root, worst.index, recorded, Known(known, given))
