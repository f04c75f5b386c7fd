"""Changes of header attributes, apart from those that follow from arguments and results that were added or removed.

Header attributes list arguments and results by number. An argument in the middle shifts the numbers after it, so each
attribute is compared for every argument and result that both modules have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final

from hlo_cli.analysis.matching.changes import Change
from hlo_cli.analysis.matching.pairs import NONE, Pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.value_types import Alias, BufferDonor
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape, TupleShape

_Items = dict[Hashable, tuple[str, str]]
"""Parts of an attribute by what they are about: the part that is compared, and its text."""

_DERIVED: Final = "fingerprint_before_lhs"
"""A frontend attribute that XLA computes from the text of the module."""


def header_changes(pairs: Pairs, *, is_equal: bool) -> Iterator[Change]:
    """Yields changed header attributes; `is_equal` means that no instruction differs.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.matching.matching import match
    >>> text = "HloModule m, buffer_donor={{ ({}, {{}}) }} ENTRY e {{ {} ROOT p = s8[4] parameter({}) }}"
    >>> one, two = (parse_module(text.format(*each)) for each in ((0, "", 0), (1, "q = s8[] parameter(0)", 1)))
    >>> list(header_changes(match(one, two).pairs, is_equal=False))
    []
    """
    modules = [graph.module for graph in pairs.plain]
    old, new = ({attribute.name: attribute.value for attribute in module.header} for module in modules)
    one, two = _interfaces(pairs)
    is_whole = not any(module.is_truncated for module in modules)
    is_shifted = is_whole and not (one.is_identity and two.is_identity)
    for name in dict.fromkeys((*old, *new)):
        before, after, items_of = old.get(name, ""), new.get(name, ""), _BY_NUMBER.get(name)
        if before == after and (items_of is None or not is_shifted):
            continue
        if items_of is not None and before and after:
            ones, twos = items_of(one), items_of(two)
            if ones is not None and twos is not None:
                ignored = () if is_equal else (_DERIVED,)
                before, after = _differing(ones, twos, ignored), _differing(twos, ones, ignored)
        if before != after:
            yield Change("header", name, before, after)


def _differing(items: _Items, other: _Items, ignored: tuple[str, ...]) -> str:
    """Text of the items that the other module has not, or not so."""
    found = [text for key, (value, text) in items.items() if key not in ignored and other.get(key, ("",))[0] != value]
    return ", ".join(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Interface:
    """Arguments and results of one module.

    `arguments` and `results` have the number of each in the old module; NONE for one that the other module has not.
    """

    module: Module
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    is_tuple: bool

    @property
    def is_identity(self) -> bool:
        """Whether all arguments and results are those of the old module."""
        return all(number == at for numbers in (self.arguments, self.results) for at, number in enumerate(numbers))

    def result(self, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """Index of a part of the result in the old module, or None if that has no such part."""
        if not self.is_tuple or not index:
            return (self.results[0], *index) if self.results[0] >= 0 else None
        number = self.results[index[0]] if index[0] < len(self.results) else NONE
        return (number, *index[1:]) if number >= 0 else None


def _interfaces(pairs: Pairs) -> tuple[_Interface, _Interface]:
    one, two = (graph.module for graph in pairs.plain)
    arguments = [NONE] * len(one.entry.parameters), [NONE] * len(two.entry.parameters)
    numbers = {parameter: number for number, parameter in enumerate(two.entry.parameters)}
    for number, parameter in enumerate(one.entry.parameters):
        other = pairs.after[pairs.one.node(parameter)]
        if other >= 0 and (new := numbers.get(pairs.two.nodes[other])) is not None:
            arguments[0][number] = arguments[1][new] = number
    results = _results(pairs)
    return (
        _Interface(one, tuple(arguments[0]), results[0], _is_tuple(one)),
        _Interface(two, tuple(arguments[1]), results[1], _is_tuple(two)),
    )


def _is_tuple(module: Module) -> bool:
    return module.entry.root is not None and isinstance(module.entry.root.shape, TupleShape)


def _results(pairs: Pairs) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers in the old module of the elements of both results; one array is element 0."""
    roots = [graph.module.entry.root for graph in pairs.plain]
    if roots[0] is None or roots[1] is None:
        return (NONE,), (NONE,)
    a, b = pairs.one.node(roots[0]), pairs.two.node(roots[1])
    shapes = [root.shape for root in roots if root is not None]
    if all(isinstance(shape, TupleShape) for shape in shapes):
        elements = pairs.elements.of(a, b)
        return tuple([i if j >= 0 else NONE for i, j in enumerate(elements.after)]), elements.before
    if not any(isinstance(shape, TupleShape) for shape in shapes):
        return (0,), (0,)
    if isinstance(shapes[0], TupleShape):
        kept = [pairs.after[x] == b for x in pairs.plain[0].operands[a]]
        return tuple([i if is_kept else NONE for i, is_kept in enumerate(kept)]), (_first(kept),)
    kept = [pairs.before[y] == a for y in pairs.plain[1].operands[b]]
    return (0 if any(kept) else NONE,), tuple([0 if is_kept else NONE for is_kept in kept])


def _first(kept: list[bool]) -> int:
    return kept.index(True) if any(kept) else NONE


def _layout_items(side: _Interface) -> _Items | None:
    """Shapes of arguments and results where they are not those of the instructions, whose changes are listed."""
    layout, entry = side.module.entry_computation_layout, side.module.entry
    if layout is None or len(layout.parameters) != len(entry.parameters) or entry.root is None:
        return None
    items: _Items = {}
    for number, (shape, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        _add_shape(items, "argument", number, side.arguments[number], (shape, parameter.shape))
    shapes = _elements(layout.result), _elements(entry.root.shape)
    if len(shapes[0]) != len(side.results) or len(shapes[1]) != len(side.results):
        return None
    for number, both in enumerate(zip(*shapes, strict=True)):
        _add_shape(items, "result", number, side.results[number], both)
    return items


def _add_shape(items: _Items, what: str, number: int, old: int, shapes: tuple[Shape, Shape]) -> None:
    if old >= 0:
        text = str(shapes[0])
        items[what, old] = "" if text == str(shapes[1]) else text, f"{what} {number} {text}"


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _alias_items(side: _Interface) -> _Items | None:
    items: _Items = {}
    for alias in side.module.header_items("input_output_alias", Alias):
        argument, result = _old(side, alias.parameter_number), side.result(alias.output_index)
        if argument >= 0 and result is not None:
            items[result, argument, alias.parameter_index] = (
                alias.kind,
                f"{alias} {_name(side, alias.parameter_number)}",
            )
    return items


def _donor_items(side: _Interface) -> _Items | None:
    donors = side.module.header_items("buffer_donor", BufferDonor)
    return {
        (_old(side, each.parameter_number), each.parameter_index): (
            "donated",
            f"{each} {_name(side, each.parameter_number)}",
        )
        for each in donors
        if _old(side, each.parameter_number) >= 0
    }


def _name(side: _Interface, number: int) -> str:
    """The op_name of an argument, or its name."""
    parameter = side.module.entry.parameters[number]
    return parameter.metadata.op_name or parameter.name


def _old(side: _Interface, number: int) -> int:
    return side.arguments[number] if 0 <= number < len(side.arguments) else NONE


def _flag_items(flags: tuple[bool, ...], numbers: tuple[int, ...], what: str) -> _Items | None:
    """Flags of arguments or results; a single flag is that of all."""
    if len(flags) == 1:
        flags *= len(numbers)
    if len(flags) != len(numbers):
        return None
    texts = [str(flag).lower() for flag in flags]
    return {
        (what, old): (text, f"{what} {number} {text}")
        for number, (old, text) in enumerate(zip(numbers, texts, strict=True))
        if old >= 0
    }


def _argument_flags(side: _Interface) -> _Items | None:
    flags = side.module.allow_spmd_sharding_propagation_to_parameters
    return _flag_items(flags, side.arguments, "argument")


def _result_flags(side: _Interface) -> _Items | None:
    flags = side.module.allow_spmd_sharding_propagation_to_output
    return _flag_items(flags, side.results, "result")


def _frontend_items(side: _Interface) -> _Items | None:
    """Frontend attributes; those with a text for each argument or result, by these."""
    items: _Items = {}
    for name, text in side.module.frontend_attributes.entries:
        numbers = next(
            (n for prefix, n in (("arg_", side.arguments), ("out_", side.results)) if name.startswith(prefix)), ()
        )
        parts = text.split(";")
        if len(parts) != len(numbers):
            items[name] = text, f"{name}={text}"
            continue
        for number, (old, part) in enumerate(zip(numbers, parts, strict=True)):
            if old >= 0:
                items[name, old] = part, f"{name} {number} {part}"
    return items


_BY_NUMBER: Final[Mapping[str, Callable[[_Interface], _Items | None]]] = {
    "entry_computation_layout": _layout_items,
    "input_output_alias": _alias_items,
    "buffer_donor": _donor_items,
    "allow_spmd_sharding_propagation_to_parameters": _argument_flags,
    "allow_spmd_sharding_propagation_to_output": _result_flags,
    "frontend_attributes": _frontend_items,
}
"""Header attributes that list arguments or results."""
