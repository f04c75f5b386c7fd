"""What each value of an entry is while a module runs, and which of them agree with those of another run.

A reducer cuts a module where values are known: one that is right becomes an argument, and one that is wrong a result.
Values are those of all devices, as a collective makes a wrong one of right ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from hlo_cli.analysis.comparison.verdict import closeness, distance
from hlo_cli.analysis.evaluate.devices import chosen_devices, runs_on_devices
from hlo_cli.analysis.evaluate.run import count_of, run
from hlo_cli.analysis.evaluate.settings import Limits, Wanted
from hlo_cli.analysis.semantics.typed_values import Array, Floats, Value, arrays_of, settle
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape

_SHARE_OF_MEMORY: Final = 4
"""The part of the memory of a run that kept values may take: two programs keep theirs next to what runs."""
_FLOOR: Final = 1e-9
"""An element of less than this share of the largest one may be what is left of terms that cancel: its own size is no
measure of its error."""


@dataclass(frozen=True, slots=True)
class EntryValues:
    """The values of the entry by name, one for each device; values beyond the memory limit are not kept.

    `rounds` are the results of the body of each loop of the entry, in the order of its iterations, on device 0.
    """

    by_name: Mapping[str, tuple[Value, ...]]
    rounds: Mapping[str, tuple[Value, ...]]
    devices: int = 1


def entry_values(
    module: Module,
    arguments: Mapping[str, Value],
    *,
    floats: Floats = "widen",
    limits: Limits | None = None,
    only: Collection[str] | None = None,
) -> EntryValues:
    """Runs a module with arguments by name, and returns the values of its entry, or `only` those of some names.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  q = f32[2] negate(p)  ROOT r = f32[2] abs(q) }")
    >>> found = entry_values(module, {"p": np.float32([1, 2])})
    >>> {name: value.tolist() for name, [value] in found.by_name.items()}
    {'q': [-1.0, -2.0], 'r': [1.0, 2.0], 'p': [1.0, 2.0]}
    """
    limits = limits or Limits()
    left = limits.max_bytes // _SHARE_OF_MEMORY
    devices = chosen_devices(module, None).count if runs_on_devices(module) else 1
    found: dict[str, list[Value]] = {}
    rounds: dict[str, list[Value]] = {}
    bodies = {
        called: each.name
        for each in module.entry.instructions
        if each.opcode == opcodes.WHILE
        for called in each.called_computations
        if called.root is not None and called.root.shape == each.shape
    }

    def observe(instruction: Instruction, device: int, value: Value, operands: Sequence[Value]) -> None:
        nonlocal left
        del operands
        computation = instruction.computation
        if computation is module.entry and (only is None or instruction.name in only):
            kept, name = found, instruction.name
        elif only is None and device == 0 and instruction is computation.root and computation in bodies:
            kept, name = rounds, bodies[computation]
        else:
            return
        if left <= 0:
            return
        left -= _bytes_of(value)
        kept.setdefault(name, []).append(value)

    order = [parameter.name for parameter in module.entry.parameters]
    given = [arguments[name] for name in order]
    result = run(module, given, floats=floats, observe=observe, limits=limits)
    if devices == 1:
        for parameter, value in zip(module.entry.parameters, given, strict=True):
            if only is None or parameter.name in only:
                found[parameter.name] = [_settled(value, parameter.shape, floats)]
        root = module.entry.root
        if root is not None and root.name not in found:
            found[root.name] = [result.result]
    whole = {name: tuple(values) for name, values in found.items() if len(values) == devices}
    return EntryValues(whole, {name: tuple(values) for name, values in rounds.items()}, devices)


def _bytes_of(value: Value) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes_of, value))
    return 0 if value is None else value.nbytes


# --- which values are right ---


def agree(
    old: Sequence[Value], new: Sequence[Value], shapes: tuple[Shape, Shape], *, floats: Floats, tolerance: float
) -> bool:
    """Whether two values are the same on every device, up to the tolerance; of values without arrays, True.

    Without rounding, each element is judged by its own size; with it, by that of the largest.

    >>> from hlo_cli import parse_shape
    >>> shapes = parse_shape("f32[2]"), parse_shape("f32[2]")
    >>> values = [np.array([1.0, 2.0])], [np.array([1.0, 2.1])]
    >>> [agree(*values, shapes, floats="widen", tolerance=each) for each in (1e-6, 0.1)]
    [False, True]
    """
    return largest_distance(old, new, shapes, floats=floats) <= tolerance


def largest_distance(
    old: Sequence[Value], new: Sequence[Value], shapes: tuple[Shape, Shape], *, floats: Floats
) -> float:
    """The largest distance of two values on any device; infinite for other types or sizes."""
    if len(old) != len(new):
        return float("inf")
    largest = 0.0
    for one, other in zip(old, new, strict=True):
        arrays = [list(arrays_of(value, shape)) for value, shape in zip((one, other), shapes, strict=True)]
        if len(arrays[0]) != len(arrays[1]):
            return float("inf")
        for (_, a, leaf), (_, b, other_leaf) in zip(*arrays, strict=True):
            if leaf.element_type.kind != other_leaf.element_type.kind or a.shape != b.shape:
                return float("inf")
            largest = max(largest, _apart(a, b, floats))
    return largest


def _apart(a: Array, b: Array, floats: Floats) -> float:
    if floats == "exact" or a.dtype.kind in "biu" or b.dtype.kind in "biu":
        return distance(a, b)
    overall = distance(a, b)
    return 0.0 if overall <= _FLOOR else closeness(a, b)


def has_elements(values: Sequence[Value], shape: Shape, wanted: Wanted) -> bool:
    """Whether a value has elements of a kind on any device.

    >>> from hlo_cli import parse_shape
    >>> has_elements([np.array([1.0, np.nan])], parse_shape("f32[2]"), "nan")
    True
    """
    return any(count_of(value, wanted, shape) for value in values)


# --- values as arguments ---


def as_argument(values: Sequence[Value], shape: Shape) -> Value:
    """A value of all devices as the argument of a parameter of this shape, in its type; see `is_argument`.

    The parts of devices that differ are joined along dimension 0.
    """
    first, *others = (_settled(value, shape, "exact") for value in values)
    if not others or all(map(_equal, [first] * len(others), others)):
        return first
    return np.concatenate([first, *others])


def is_argument(values: Sequence[Value], shape: Shape) -> bool:
    """Whether a value can be the argument of a parameter: that of one device, or an array that its devices divide."""
    if any(isinstance(leaf, TokenShape) for _, leaf in shape.leaves):
        return False
    return len(values) == 1 or (isinstance(shape, ArrayShape) and (shape.rank > 0 or not differs(values)))


def differs(values: Sequence[Value]) -> bool:
    """Whether devices have different values."""
    return not all(_equal(values[0], each) for each in values[1:])


def _equal(one: Value, other: Value) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one is other or (
        isinstance(one, np.ndarray)
        and isinstance(other, np.ndarray)
        and one.tobytes() == other.tobytes()
        and one.shape == other.shape
    )


def _settled(value: Value, shape: Shape, floats: Floats) -> Value:
    match shape:
        case TupleShape() if isinstance(value, tuple):
            return tuple(_settled(each, part, floats) for each, part in zip(value, shape.elements, strict=True))
        case ArrayShape() if value is not None and not isinstance(value, tuple):
            return settle(np.asarray(value), shape.element_type, floats)
        case _:
            return None


def cut_to_sizes(value: Value, shape: Shape) -> Value:
    """The first elements of an argument along each dimension, as a parameter of fewer elements takes them.

    >>> from hlo_cli import parse_shape
    >>> cut_to_sizes(np.arange(6).reshape(2, 3), parse_shape("s32[2,1]")).tolist()
    [[0], [3]]
    """
    match shape:
        case TupleShape() if isinstance(value, tuple):
            return tuple(cut_to_sizes(each, part) for each, part in zip(value, shape.elements, strict=True))
        case ArrayShape() if isinstance(value, np.ndarray) and value.ndim == shape.rank:
            return value[tuple(map(slice, shape.dimensions))]
        case _:
            return value


def truth(value: Value) -> int:
    """A scalar as a number: the branch of a conditional, or whether a condition holds.

    >>> truth(np.bool_(True)), truth(np.int32(3))
    (1, 3)
    """
    return int(np.asarray(value).reshape(()).item())


def named_arrays(arguments: Mapping[str, Value]) -> Iterator[tuple[str, Array]]:
    """Arguments as arrays of an archive; elements of a tuple by their index, such as `p{0}`."""
    for name, value in arguments.items():
        if isinstance(value, tuple):
            yield from named_arrays({f"{name}{{{at}}}": each for at, each in enumerate(value)})
        elif value is not None:
            yield name, np.asarray(value)
