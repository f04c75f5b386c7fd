"""Why was a function compiled again: what varies between its programs, over which values, and what stops it?

The reasons are those of `explain` in jax/_src/interpreters/partial_eval.py. A log names the argument that changed; of
programs alone, the types of their arguments are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, list_first

Reason = Literal[
    "shape",
    "type",
    "weak type",
    "sharding",
    "static value",
    "structure",
    "context",
    "new function",
    "debug info",
    "unknown",
]

# --- what changed ---


_ARRAY: Final = lazy_regex(r"(?P<type>[a-z]\w*)\[(?P<dimensions>[^\]]*)\](?P<rest>.*)")
_STATIC: Final = lazy_regex(r"Static\(val=(?P<value>.*)\)")


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two calls: an argument, a setting, or the function itself; empty where it is not known."""

    reason: Reason
    argument: str = ""
    now: str = ""
    before: str = ""


@dataclass(slots=True)
class Function:
    """What the log says on one function: `compiled` and `traced` count, `seconds` are by stage."""

    name: str
    place: str = ""
    called_at: str = ""
    traced: int = 0
    compiled: int = 0
    changes: list[Change] = field(default_factory=list)
    types: list[tuple[str, ...]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def times(self) -> int:
        """How often it was compiled, or traced if the log has only cache misses."""
        return self.compiled or self.traced

    @property
    def total_seconds(self) -> float:
        """The logged time of all stages."""
        return sum(self.seconds.values())


def classified(argument: str, now: str, before: str) -> Change:
    """A change of an argument with its reason.

    >>> classified("x", "f32[5]", "f32[4]").reason, classified("x", "i32[4]", "f32[4]").reason
    ('shape', 'type')
    """
    if (value := _STATIC.search(now)) and (earlier := _STATIC.search(before)):
        return Change("static value", argument, value["value"], earlier["value"])
    new, old = _ARRAY.fullmatch(now), _ARRAY.fullmatch(before)
    if new is None or old is None:
        return Change("structure", argument, now, before)
    if new["type"] != old["type"]:
        return Change("type", argument, now, before)
    if _sizes(now) != _sizes(before):
        return Change("shape", argument, now, before)
    if ("weak_type=True" in new["rest"]) != ("weak_type=True" in old["rest"]):
        return Change("weak type", argument, now, before)
    return Change("sharding", argument, now, before)


def _sizes(text: str) -> tuple[int, ...] | None:
    """The sizes of an array without the mesh axes that divide them; None for what is no array."""
    match = _ARRAY.match(text)
    sizes = [part.partition("@")[0].strip() for part in match["dimensions"].split(",")] if match else []
    if match is None or not all(each.isdecimal() and len(each) < 19 for each in sizes if each):
        return None
    return tuple(int(each) for each in sizes if each)


def changes_between(types: Sequence[Sequence[str]], noun: str = "array") -> Iterator[Change]:
    """What differs between each compilation of a function and the first one, by the number of the array."""
    for later in types[1:]:
        if len(later) != len(types[0]):
            yield Change("structure", "", format_count(len(later), "arrays"), format_count(len(types[0]), "arrays"))
            continue
        for at, (now, before) in enumerate(zip(later, types[0], strict=True)):
            if now != before:
                yield classified(f"{noun} {at}", now, before)


# --- why it was compiled again ---


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a function was compiled again: what varies, over which values, how often, and what to do."""

    function: Function
    reason: Reason
    argument: str
    values: tuple[str, ...]
    times: int
    dimension: int | None = None
    sizes: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """What varies."""
        shown = list_first([*self.values], _MAX_VALUES)
        match self.reason:
            case "shape" if self.dimension is not None and self.sizes:
                return f"dimension {self.dimension} of {self.argument} varies: {_series(self.sizes)}"
            case "new function":
                return "the function is defined again for each call"
            case "debug info":
                return "its names of arguments or results differ"
            case "context":
                return f"{self.argument or 'a setting of JAX'} differs" + (f": {shown}" if shown else "")
            case "unknown":
                return "JAX gives no reason"
            case "structure":
                return f"the structure of {self.argument or 'its arguments'} differs: {shown}"
            case _:
                return f"the {self.reason} of {self.argument} varies: {shown}"

    @property
    def advice(self) -> str:
        """What to do."""
        return _padding(self) if self.reason == "shape" else _ADVICE[self.reason].format(self.argument)


_MAX_VALUES: Final = 4  # a line of a terminal; all are in the table
_ADVICE: Final[Mapping[Reason, str]] = {
    "type": "Convert {} to one type before the call.",
    "weak type": "Pass {} as an array of one type, such as jnp.float32(2), in place of a Python number.",
    "sharding": "Pass {} with one sharding: jax.device_put before the call, or in_shardings of jax.jit.",
    "static value": "Pass {} as a traced argument, or keep to few values: each value is another program.",
    "structure": "Pass {} in one structure: the same keys, lengths, and classes in each call.",
    "context": "Set {} once, before the first call.",
    "new function": "Create the function and call jax.jit once, outside of the loop or of the function that calls it.",
    "debug info": "Call the function with the same names of arguments.",
    "unknown": "Set jax_explain_cache_misses to True, and compare the arguments of both calls.",
}


def _padding(cause: Cause) -> str:
    """To which sizes a varying dimension is padded."""
    if cause.dimension is None or not cause.sizes:
        return f"Pad {cause.argument} to few shapes, and mask the rest."
    low, high = min(cause.sizes), max(cause.sizes)
    whose = f"dimension {cause.dimension} of {cause.argument}"
    one = -(-high // _SUBLANES) * _SUBLANES if high > _SUBLANES else high
    if high <= _WASTE * low:
        return f"Pad {whose} to {one:,}, and mask the rest: one program for all."
    buckets = [1 << power for power in range(max(low - 1, 0).bit_length(), (high - 1).bit_length() + 1)]
    listed = list_first([f"{size:,}" for size in buckets], _MAX_VALUES)
    return f"Pad {whose} to powers of two ({listed}), and mask the rest."


_SUBLANES: Final = 8  # the rows of a TPU's tile, to which XLA pads anyway
_WASTE: Final = 1.5  # chosen: above it, padding all to the largest costs more than a second program


def _series(sizes: Sequence[int]) -> str:
    """Sizes, those in a row as a range.

    >>> _series((32, 33, 34, 35)), _series((1, 2)), _series((8, 16, 64))
    ('32 to 35', '1 and 2', '8, 16, and 64')
    """
    texts = [f"{size:,}" for size in sorted(set(sizes))]
    if len(texts) > 2 and max(sizes) - min(sizes) == len(texts) - 1:
        return f"{texts[0]} to {texts[-1]}"
    if len(texts) > _MAX_VALUES:
        return list_first(texts, _MAX_VALUES)
    return " and ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])}, and {texts[-1]}"


def causes_of(functions: Iterable[Function]) -> list[Cause]:
    """Why functions were compiled again, what cost most first."""
    causes = [cause for each in functions for cause in _causes(each)]
    return sorted(causes, key=lambda each: (-each.function.total_seconds, -each.function.times, -each.times))


def _causes(function: Function) -> Iterator[Cause]:
    groups: dict[tuple[Reason, str], list[Change]] = {}
    for change in function.changes:
        groups.setdefault((change.reason, change.argument), []).append(change)
    for (reason, argument), changes in groups.items():
        values = tuple(dict.fromkeys(value for each in changes for value in (each.before, each.now) if value))
        shapes = [_sizes(value) for value in values] if reason == "shape" else []
        dimension, sizes = _varying([shape for shape in shapes if shape is not None])
        yield Cause(function, reason, argument, values, len(changes), dimension, sizes)


def _varying(shapes: Sequence[tuple[int, ...]]) -> tuple[int | None, tuple[int, ...]]:
    """The only dimension that differs between shapes of one rank, and its sizes; None if it is not one."""
    if len({len(shape) for shape in shapes}) != 1:
        return None, ()
    differing = [at for at, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(differing) != 1:
        return None, ()
    return differing[0], tuple(dict.fromkeys(shape[differing[0]] for shape in shapes))


def compiled_again(programs: Iterable[tuple[Hashable, str, tuple[str, ...]]]) -> list[tuple[Function, Cause | None]]:
    """The functions that several programs are of, with what varies first; None if their arguments are the same.

    Of each program: its job, as programs of one name on two hosts are one, its name, and the types of its arguments.

    >>> sizes = [("dump/", "jit_step", ("f32[4]", f"f32[{size},8]")) for size in (32, 33, 34)]
    >>> [(function, cause)] = compiled_again(sizes)
    >>> function.compiled, cause.words
    (3, 'dimension 0 of argument 1 varies: 32 to 34')
    """
    functions: dict[tuple[Hashable, str], Function] = {}
    for job, name, arguments in programs:
        function = functions.setdefault((job, name), Function(name))
        function.types.append(arguments)
        function.compiled += 1
    several = [each for each in functions.values() if each.compiled > 1]
    for function in several:
        function.changes += changes_between(function.types, "argument")
    return [(function, next(_causes(function), None)) for function in sorted(several, key=lambda each: -each.compiled)]
