"""The arrays that a program takes and returns: what callers control of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.dataflow.flat_schedule import Positions
from hlo_cli.analysis.memory.order_independent import OrderIndependentFacts
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, ShapeIndex
from hlo_cli.lazy_regex import lazy_regex

_NAME: Final = lazy_regex(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(frozen=True, slots=True)
class Argument:
    """An array among the arguments: its entry parameter, the parameter's number, and the index within its shape.

    `place` identifies the value in the dataflow of the module.
    """

    parameter: Instruction
    number: int
    index: ShapeIndex
    shape: ArrayShape
    place: int

    @property
    def label(self) -> str:
        """The name in the user's program, such as `params['w']`; that of the parameter if the dump has none."""
        return self.parameter.metadata.op_name or self.parameter.name

    @property
    def root_name(self) -> str:
        """The argument of the user's function that it is part of, such as `params`; empty if unknown."""
        found = _NAME.match(self.parameter.metadata.op_name)
        return found[0] if found is not None else ""


@dataclass(frozen=True, slots=True)
class Result:
    """An array of the result: its index in the entry's root, its shape, and the place of the value that it is."""

    index: ShapeIndex
    shape: ArrayShape
    value: int


def arguments_of(facts: OrderIndependentFacts) -> tuple[Argument, ...]:
    """Returns the arrays among the arguments, in order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "ENTRY e { p = (f32[2], s32[]) parameter(0)  ROOT g = s32[] get-tuple-element(p), index=1 }"
    >>> facts = order_independent_facts(parse_module(text))
    >>> [(each.number, each.index, str(each.shape)) for each in arguments_of(facts)]
    [(0, (0,), 'f32[2]{0}'), (0, (1,), 's32[]')]
    """
    parameters = enumerate(facts.module.entry.parameters)
    return tuple(
        Argument(parameter, number, index, shape, place)
        for number, parameter in parameters
        for index, shape, place in _arrays(facts.places, parameter)
    )


def results_of(facts: OrderIndependentFacts) -> tuple[Result, ...]:
    """Returns the arrays of the result, in order.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.memory.order_independent import order_independent_facts
    >>> text = "ENTRY e { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT t = (f32[2], f32[2]) tuple(n, p) }"
    >>> [(each.index, each.value) for each in results_of(order_independent_facts(parse_module(text)))]
    [((0,), 1), ((1,), 0)]
    """
    root, at = facts.module.entry.root, facts.dataflow.value
    if root is None:
        return ()
    return tuple(Result(index, shape, at[place]) for index, shape, place in _arrays(facts.places, root))


def _arrays(places: Positions, instruction: Instruction) -> Iterator[tuple[ShapeIndex, ArrayShape, int]]:
    parts, first = places.parts(instruction), places.first_of(instruction)
    for n, (index, shape) in enumerate(zip(parts.indices, parts.shapes, strict=True)):
        if isinstance(shape, ArrayShape):
            yield index, shape, first + n
