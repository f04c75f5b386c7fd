"""What a person changed, whatever compilers made of it: layers, loops, recomputation; or nothing at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hlo_cli.analysis.cache import computed_once
from hlo_cli.analysis.dataflow.executions import trip_count
from hlo_cli.analysis.origin.scopes_and_moves import generalize, scope_of
from hlo_cli.analysis.statements.shapes import DIMENSION_NUMBERS, ShapeChanges
from hlo_cli.analysis.statements.statement import (
    Draft,
    Evidence,
    LayerChange,
    LoopChange,
    RematerializationChange,
    TripCountChange,
    signature,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import unquote
from hlo_cli.ir.operations import NAMING_ATTRIBUTES, attributes_with
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.lazy_regex import lazy_regex

# --- whether two modules compute the same ---
# By the values of their results, or by the operations behind each op_name.


_IGNORED: Final = frozenset((*NAMING_ATTRIBUTES, *attributes_with("annotates")))
_INLINED: Final = frozenset((opcodes.FUSION, opcodes.CALL))
_MOVEMENT: Final = frozenset(
    (
        *(opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.COPY),
        *(opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.BROADCAST, opcodes.CONVERT, opcodes.SLICE, opcodes.CONCATENATE),
        *(opcodes.PAD, opcodes.IOTA, opcodes.FUSION, opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL),
    )
)
"""Opcodes that compilers add and remove while the operations stay the same."""
_MAX_VISITS: Final = 4
"""Visits of each instruction on average; nested calls could double the work at each level."""
# Three frames each are far below Python's limit of 1,000; chosen, not measured.
_MAX_DEPTH: Final = 50
# Names of four in five operations: what compilers add has often none. Chosen, not measured.
_MIN_NAMED: Final = 0.8
# Elided constants are printed `{...}`: unknown, so equal texts prove nothing.
_OMITTED: Final = "..."

Key = tuple[object, ...]


def same_values(before: Module, after: Module) -> bool:
    """Whether the results are the same expressions of the same parameters, whatever is fused, copied, or called.

    False does not mean that they differ: compilers simplify, and texts omit constants.

    >>> from hlo_cli import parse_module
    >>> one = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT r = f32[9] tanh(n) }"
    >>> two = '''f { q = f32[9] parameter(0)  m = f32[9] negate(q)  ROOT s = f32[9] tanh(m) }
    ... ENTRY e { p = f32[9] parameter(0)  ROOT k = f32[9] fusion(p), kind=kLoop, calls=f }'''
    >>> same_values(parse_module(one), parse_module(two))
    True
    >>> same_values(parse_module(one), parse_module(two.replace("tanh", "sine")))
    False
    """
    old, new = computed_once(_numbered, before, after)
    return old.is_certain and new.is_certain and old.result is not None and old.result == new.result


def same_operations(before: Module, after: Module) -> float | None:
    """Share of the op_names behind which both modules have the same opcodes; None if too few operations are named.

    >>> from hlo_cli import parse_module
    >>> text = 'ENTRY e { p = f32[9] parameter(0)  ROOT r = f32[9] tanh(p), metadata={op_name="jit(f)/tanh"} }'
    >>> same_operations(parse_module(text), parse_module(text))
    1.0
    """
    old, new = _opcodes_by_name(before), _opcodes_by_name(after)
    if old is None or new is None:
        return None
    # Sets of opcodes, not counts: unrolling and splitting keep the operations.
    same = sum(old.get(name) == new.get(name) for name in old | new)
    return same / len(old | new)


def _has_effect(instruction: Instruction) -> bool:
    """Whether an instruction does more than computing its result, or gives another one each time."""
    if instruction.opcode == opcodes.CUSTOM_CALL:
        # hlo_instructions.cc prints it only if it is true.
        return (instruction.attribute("custom_call_has_side_effect") or "") == "true"
    return instruction.opcode in _EFFECTS


_EFFECTS: Final = frozenset(("infeed", "outfeed", "send", "recv", "rng", "rng-get-and-update-state"))


def changed_counts(before: Module, after: Module) -> tuple[tuple[str, int, int], ...] | None:
    """The operations of which one program has more than the other, with both numbers, the largest change first.

    Values count, not instructions: what fusions compute twice counts once. Conversions count, as they round; other
    instructions that only move elements do not, but for transposes if nothing else differs. None if calls are nested
    too deep to be counted.

    >>> from hlo_cli import parse_module
    >>> text = "ENTRY e { p = f32[9] parameter(0)  n = f32[9] negate(p)  ROOT r = f32[9] tanh(n) }"
    >>> changed_counts(parse_module(text), parse_module(text.replace("negate", "tanh")))
    (('negate', 1, 0), ('tanh', 1, 2))
    """
    numbered = computed_once(_numbered, before, after)
    if any(each.result is None for each in numbered):
        return None
    old, new = (Counter(map(name_of_operation, each.makers)) for each in numbered)
    differing = sorted(
        ((name, old[name], new[name]) for name in old | new if old[name] != new[name]),
        key=lambda each: (-abs(each[2] - each[1]), each[0]),
    )
    told = [each for each in differing if each[0] not in _MOVEMENT or each[0] == opcodes.CONVERT]
    return tuple(told or (each for each in differing if each[0] == opcodes.TRANSPOSE))


def name_of_operation(instruction: Instruction) -> str:
    """The opcode, of a custom call with its target.

    >>> from hlo_cli import parse_module
    >>> name_of_operation(parse_module('ENTRY e { ROOT c = s8[] custom-call(), custom_call_target="f" }').entry.root)
    'custom-call f'
    """
    if instruction.opcode != opcodes.CUSTOM_CALL:
        return instruction.opcode
    target = (instruction.attribute("custom_call_target") or "").strip('"')
    return f"{opcodes.CUSTOM_CALL} {target}".rstrip()


def _opcodes_by_name(module: Module) -> dict[str, set[str]] | None:
    """Opcodes that compute, by op_name."""
    named: dict[str, set[str]] = {}
    unnamed = total = 0
    applied = _applied(module)
    for instruction in module.instructions:
        if instruction.opcode in _MOVEMENT or instruction.computation in applied:
            continue
        total += 1
        if name := instruction.metadata.op_name:
            named.setdefault(name, set()).add(instruction.opcode)
        else:
            unnamed += 1
    # More unnamed operations than a fifth can hide what differs.
    return named if named and unnamed <= (1 - _MIN_NAMED) * total else None


def _applied(module: Module) -> set[Computation]:
    """Computations that operations apply to elements, whose instructions are named as the compiler pleases."""
    return {
        called for each in module.instructions if each.opcode not in _MOVEMENT for called in each.called_computations
    }


class _Numbered(NamedTuple):
    """The number of the result of a module, None if calls are nested too deep, and an instruction for each number.

    It is certain if nothing in the module has effects besides its result, or is omitted from the text.
    """

    result: int | None
    is_certain: bool
    makers: Sequence[Instruction]


def _numbered(before: Module, after: Module) -> tuple[_Numbered, _Numbered]:
    numbers = _Numbers()
    return numbers.of_module(before), numbers.of_module(after)


class _Numbers:
    """Numbers of values: equal expressions have equal numbers; omitted constants of one shape have the same."""

    __slots__ = ("_depth", "_is_certain", "_logical", "_makers", "_numbers", "_tuples", "_visits")

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._tuples: dict[int, tuple[int, ...]] = {}
        self._logical: dict[int, tuple[Shape, object]] = {}
        self._visits = 0
        self._depth = 0
        self._is_certain = True
        self._makers: dict[int, Instruction] = {}

    def of_module(self, module: Module) -> _Numbered:
        """The number of the result, and the makers of all numbers of a module."""
        # Nested calls of one computation are expanded at each call, so the number of visits is limited, not the depth
        # alone.
        self._visits = _MAX_VISITS * sum(1 for _ in module.instructions)
        self._is_certain, self._makers, self._depth = not any(map(_has_effect, module.instructions)), {}, 0
        result = self._of_computation(module.entry, None)
        return _Numbered(result, self._is_certain, tuple(self._makers.values()))

    def _shape(self, shape: Shape) -> object:
        """A shape without layouts; instructions share shapes."""
        if (known := self._logical.get(id(shape))) is None:
            known = self._logical[id(shape)] = shape, _logical(shape)
        return known[1]

    def _of_computation(self, computation: Computation, arguments: Sequence[int] | None) -> int | None:
        if self._depth > _MAX_DEPTH:
            return None
        self._depth += 1
        values: dict[Instruction, int] = {}
        for instruction in computation.instructions:
            self._visits -= 1
            operands = [values.get(operand) for operand in instruction.operands]
            known = [operand for operand in operands if operand is not None]
            number = (
                self._of(instruction, known, arguments) if len(known) == len(operands) and self._visits > 0 else None
            )
            if number is None:
                return None
            values[instruction] = number
            self._makers.setdefault(number, instruction)
        self._depth -= 1
        return values.get(computation.root) if computation.root is not None else None

    def _of(self, instruction: Instruction, operands: list[int], arguments: Sequence[int] | None) -> int | None:
        match instruction.opcode:
            case opcodes.PARAMETER if arguments is not None:
                number = instruction.parameter_number
                return arguments[number] if number is not None and number < len(arguments) else None
            case opcodes.PARAMETER:
                return self._number((instruction.opcode, instruction.parameter_number, self._shape(instruction.shape)))
            case opcodes.CONSTANT:
                text = instruction.raw[0]
                self._is_certain &= _OMITTED not in text
                return self._number((instruction.opcode, text, self._shape(instruction.shape)))
            # XLA's copies and no-op reshapes keep the value, whatever the layouts.
            case opcodes.COPY:
                return operands[0]
            case opcodes.BITCAST | opcodes.RESHAPE if instruction.shape == instruction.operands[0].shape:
                return operands[0]
            case opcodes.TUPLE:
                number = self._number((instruction.opcode, *operands))
                self._tuples[number] = tuple(operands)
                return number
            case opcodes.GET_TUPLE_ELEMENT if operands[0] in self._tuples:
                return self._tuples[operands[0]][instruction.integer("index") or 0]
            case _ if instruction.opcode in _INLINED and len(instruction.called_computations) == 1:
                return self._of_computation(instruction.called_computations[0], operands)
            case _:
                return self._of_operation(instruction, operands)

    def _of_operation(self, instruction: Instruction, operands: list[int]) -> int | None:
        called = [self._of_computation(computation, None) for computation in instruction.called_computations]
        if None in called:
            return None
        # Settings that name or annotate do not change values (see NAMING_ATTRIBUTES).
        settings = tuple(pair for pair in instruction.pairs if pair[0] not in _IGNORED)
        # Of other opcodes, the backend's configuration is how it computes, not what.
        config = instruction.attribute("backend_config") if instruction.opcode == opcodes.CUSTOM_CALL else None
        # The bytes of a bitcast stay in their places: what it does depends on both layouts.
        is_bitcast = instruction.opcode == opcodes.BITCAST
        layout = (
            (instruction.shape, instruction.operands[0].shape)
            if is_bitcast and operands
            else self._shape(instruction.shape)
        )
        return self._number((instruction.opcode, layout, settings, config, *called, *operands))

    def _number(self, key: Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _logical(shape: Shape) -> object:
    """A shape without layouts."""
    return tuple(
        (str(leaf.element_type), leaf.sizes) if isinstance(leaf, ArrayShape) else str(leaf) for _, leaf in shape.leaves
    )


# --- layers ---
# Layers that only one of the modules has, told by the numbers in scopes and in the labels of arguments.


LAYERS: Final = 10
"""Rank of the drafts."""
# Up to four digits, as in layers_12, h.3, blocks[7], layers/0, and params['layers'][1]; longer numbers are ids.
_LAYER: Final = lazy_regex(r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z_]*?)(?:_|/|'\]\[|\]\[|\[|\.)([0-9]{1,4})(?![A-Za-z0-9.])")
_OP_NAME: Final = lazy_regex(r'op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')
# More families with numbers are names of variables or steps rather than layers; chosen, not measured.
_MAX_FAMILIES: Final = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the repeated parts of a model: `text` is how the program names it, such as `layers_7`."""

    family: str
    number: int
    text: str


def _layer_of(name: str) -> Layer | None:
    """The outermost numbered part in a scope or a label.

    >>> _layer_of("layers_7/attention"), _layer_of("params['layers'][3]['w1']").text, _layer_of("embed/dot")
    (Layer(family='layers', number=7, text='layers_7'), 'layers[3]', None)
    """
    found = _LAYER.search(name)
    if found is None:
        return None
    family, number = found[1], int(found[2])
    text = found[0] if found[0][len(family)] in "_/." else f"{family}[{number}]"
    return Layer(family, number, text)


class LayersOfModule:
    """The layer of each instruction of a module, by its scope or the label of the argument, and their sizes."""

    def __init__(self, module: Module) -> None:
        self._known: dict[str, Layer | None] = {}
        self.instructions: dict[str, Counter[int]] = {}
        self.texts: dict[tuple[str, int], str] = {}
        self.names: dict[str, set[str]] = {}
        for instruction in module.instructions:
            # Labels of arguments are written as in Python, scopes as the program names them: the scope's text is
            # preferred.
            if (layer := self.of(instruction)) is not None:
                self.instructions.setdefault(layer.family, Counter())[layer.number] += 1
                text = self.texts.get((layer.family, layer.number))
                if text is None or (instruction.opcode != opcodes.PARAMETER and "[" in text):
                    self.texts[layer.family, layer.number] = layer.text

    def of(self, instruction: Instruction) -> Layer | None:
        """The layer that an instruction's own metadata name."""
        return self.named(op_name_of(instruction))

    def named(self, op_name: str) -> Layer | None:
        """The layer in an op_name: of an argument its label, else a scope."""
        if op_name not in self._known:
            self._known[op_name] = _layer_of(scope_of(op_name) if "/" in op_name else op_name)
        return self._known[op_name]


def op_name_of(instruction: Instruction) -> str:
    """The op_name in an instruction's own metadata, empty if there is none."""
    text = instruction.raw[1]
    found = _OP_NAME.search(text, max(text.find("metadata={"), 0))
    if found is None:
        return ""
    return instruction.metadata.op_name if "\\" in found[1] else found[1]


def find_layers(evidence: Evidence) -> None:
    """A draft for the layers that were added and for those that were removed; it claims what is in them."""
    if not (evidence.diff.added or evidence.diff.removed):
        return
    layers = _numbers_in_text(evidence.diff.before)
    # The same numbers in both texts: no layer was added or removed, and the slow search is not needed.
    if layers is not None and layers == _numbers_in_text(evidence.diff.after):
        return
    old, new = LayersOfModule(evidence.diff.before), LayersOfModule(evidence.diff.after)
    for is_added, (one, two) in ((True, (old, new)), (False, (new, old))):
        for family, numbers in _families(one, two):
            _draft(evidence, one, two, family, numbers, is_added=is_added)


def _numbers_in_text(module: Module) -> frozenset[tuple[str, int]] | None:
    """The families and numbers of all layers that the text of a module names; None if a module has no text.

    Without a difference there is no other layer, and the layer of each instruction does not matter.
    """
    written = set(_OP_NAME.findall(module.source.text))
    if not written:
        return None
    names = (unquote(f'"{name}"') if "\\" in name else name for name in written)
    layers = (_layer_of(scope_of(name) if "/" in name else name) for name in names)
    return frozenset((layer.family, layer.number) for layer in layers if layer is not None)


def _families(fewer: LayersOfModule, more_layers: LayersOfModule) -> Iterator[tuple[str, list[int]]]:
    """Yields the families that have more layers in `more_layers`, with the numbers of those layers."""
    families = []
    for family, sizes in more_layers.instructions.items():
        known = fewer.instructions.get(family, Counter())
        more = sorted(sizes.keys() - known.keys())
        # No layer is missing that the smaller model has: else layers were renumbered or replaced.
        if known and more and not known.keys() - sizes.keys() and _are_alike(sizes, more):
            families.append((family, more))
    yield from sorted(families, key=lambda each: -more_layers.instructions[each[0]].total())[:_MAX_FAMILIES]


def _are_alike(sizes: Mapping[int, int], more: Iterable[int]) -> bool:
    """Whether the new layers are about as large as the others."""
    others = [size for number, size in sizes.items() if number not in more]
    return all(min(others) <= 2 * sizes[number] and sizes[number] <= 2 * max(others) for number in more)


def _draft(
    evidence: Evidence,
    fewer: LayersOfModule,
    more_layers: LayersOfModule,
    family: str,
    numbers: list[int],
    *,
    is_added: bool,
) -> None:
    alone = evidence.unowned(is_added=is_added)
    theirs = {
        generalize(scope_of(op_name_of(each)) or op_name_of(each))
        for each in (evidence.diff.after if is_added else evidence.diff.before).instructions
        if (layer := more_layers.of(each)) is not None and layer.family == family
    }
    seeds = [
        each
        for each in alone
        if (layer := more_layers.of(each)) is not None
        and layer.family == family
        # Only what other layers of the family have as well: the rest is an edit in this layer.
        and generalize(scope_of(op_name_of(each)) or op_name_of(each)) in theirs
    ]
    if not seeds:
        return
    known = {signature(each) for each in (evidence.diff.before if is_added else evidence.diff.after).instructions}
    rows = evidence.connected(seeds, lambda each: signature(each) in known or not op_name_of(each), is_added=is_added)
    sizes = more_layers.instructions[family]
    like = min(
        (number for number in fewer.instructions[family]),
        # Nearest in size to the last added one, and the last of equal ones, as models grow at the end.
        key=lambda number: (abs(sizes[number] - sizes[numbers[-1]]), -number),
    )
    texts = tuple(more_layers.texts[family, number] for number in numbers)
    statement = LayerChange(is_added, texts, more_layers.texts.get((family, like), ""))
    draft = evidence.draft(LAYERS, statement)
    evidence.claim(draft, rows)
    _claim_renumbered(evidence, draft, family)


def _claim_renumbered(evidence: Evidence, draft: Draft, family: str) -> None:
    """Metadata that differ only in the number of the layer."""
    for row, position, _, change in evidence.open_changes("metadata"):
        if change.name == "op_name" and generalize(change.before) == generalize(change.after):
            layer = _layer_of(scope_of(change.after) if "/" in change.after else change.after)
            if layer is not None and layer.family == family:
                evidence.claim_change(draft, row, position)


# --- operations of the program ---
# The operations of the user's program, known by their op_names, whatever compilers made of them.


OperationKey = tuple[str, str]
"""The scope of an operation, without numbers and loops, and its name."""

# Suffixes by XLA's NameUniquer, not by the user.
_NUMBER: Final = lazy_regex(r"\.[0-9]+$")
_EMPTY: Final = frozenset(("", "*"))


def _scope_in_program(op_name: str) -> str:
    """The scope of an operation as the layers share it: without numbers and einsums.

    >>> _scope_in_program("jit(f)/transpose(jvp(layers_2))/jvp(layers_2)/checkpoint/attention/dot_general")
    'layers_*/attention'
    """
    scope = generalize(scope_of(op_name))
    # JAX names an einsum by its equation, which holds `->` and changes with the names of its axes.
    parts = [part for part in scope.split("/") if part not in _EMPTY and "->" not in part]
    # Nested jit and remat repeat the name of a function.
    return "/".join(part for at, part in enumerate(parts) if at == 0 or part != parts[at - 1])


def _operation_key(op_name: str) -> OperationKey:
    """The key of an operation, equal in both passes and all layers.

    >>> _operation_key("jit(f)/layers_0/mlp/dot_general")
    ('layers_*/mlp', 'dot_general')
    """
    name = op_name.rpartition("/")[2]
    return _scope_in_program(op_name), "" if "(" in name else _NUMBER.sub("", name)


class Program:
    """The operations of a module: their keys, and whether a compiler has made kernels of them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._keys: frozenset[OperationKey] | None = None
        self._known: dict[str, OperationKey] = {}
        # Compiled: scheduled, or with fusions, which no frontend writes.
        self.is_compiled = module.is_scheduled or any(each.opcode == opcodes.FUSION for each in module.instructions)

    @property
    def keys(self) -> frozenset[OperationKey]:
        """The keys of all operations."""
        if self._keys is None:
            names = {op_name_of(each) for each in self._module.instructions if each.opcode != opcodes.PARAMETER}
            self._keys = frozenset(map(self.key, names - {""}))
        return self._keys

    def key(self, op_name: str) -> OperationKey:
        """The key of an op_name."""
        if op_name not in self._known:
            self._known[op_name] = _operation_key(op_name)
        return self._known[op_name]


def _scopes_of(instructions: Iterable[Instruction]) -> tuple[str, ...]:
    """The distinct scopes of some instructions, in their order."""
    names = dict.fromkeys(filter(None, map(op_name_of, instructions)))
    return tuple(dict.fromkeys(scope for name in names if (scope := _scope_in_program(name))))


# --- loops ---
# Loops that run another number of iterations, and loops that only one of the modules has.


# Lower than sizes (20), since arrays that a loop stacks have its trip count as a size.
TRIPS, LOOPS = 5, 8
"""Ranks of the drafts."""
# Chosen, not measured.
_MIN_INSIDE = 8
"""Compilers unroll and make small loops; a loop that the program lost or got is told in any size."""


def find_trips(evidence: Evidence, changes: ShapeChanges) -> None:
    """A draft for each number of iterations that changed; it takes the sizes that changed with it."""
    loops_by_counts: dict[tuple[int, int], list[tuple[Instruction, Instruction]]] = {}
    for before in _loops(evidence.diff.before.computations):
        after = evidence.diff.pairs.get(before)
        if after is None or after.opcode != opcodes.WHILE:
            continue
        old, new = trip_count(before), trip_count(after)
        if old is not None and new is not None and old != new:
            loops_by_counts.setdefault((old, new), []).append((before, after))
    for (old, new), loops in loops_by_counts.items():
        # A scan over more layers also has stacked arrays of this size.
        group = next((group for group in changes.sizes.groups if group.base == (old, new)), None)
        statement = TripCountChange(
            tuple(after.name for _, after in loops), old, new, group.shapes if group is not None else 0
        )
        draft = evidence.draft(TRIPS, statement)
        if group is not None:
            changes.drafts[group.base] = draft
        conditions = {called for _, after in loops for called in after.called_computations}
        for row, position, pair, change in evidence.open_changes("backend_config", "constants"):
            # XLA writes known_trip_count and known_init_step in the loop's backend_config
            # (while_loop_trip_count_annotator.cc).
            known = change.name.startswith("known_trip_count") or change.name.startswith("known_init_step")
            limit = pair.after.computation in conditions and (change.before, change.after) == (str(old), str(new))
            if known or limit:
                evidence.claim_change(draft, row, position)


def find_loops(evidence: Evidence, old: Program, new: Program) -> None:
    """A draft for the loops that were added and for those that were removed, with what took their place."""
    for is_added in (True, False):
        alone = evidence.unowned(is_added=is_added)
        loops = [each for each in alone if each.opcode == opcodes.WHILE and _is_written(each, old, new)]
        if not loops:
            continue
        among = frozenset(alone)
        inside = [each for each in _inside(loops) if each in among]
        if len(inside) < _MIN_INSIDE and (old.is_compiled or new.is_compiled):
            continue
        program, others = (new, old) if is_added else (old, new)
        rows = evidence.connected([*loops, *inside], _is_of_loop, is_added=is_added)
        keys = {program.key(name)[1] for each in inside if (name := op_name_of(each))}
        instead = [
            each
            for each in evidence.unowned(is_added=not is_added)
            if (name := op_name_of(each)) and others.key(name)[1] in keys
        ]
        statement = LoopChange(
            is_added,
            len(loops),
            tuple(dict.fromkeys(n for each in loops if (n := trip_count(each)) is not None)),
            len(inside),
            len(instead),
        )
        draft = evidence.draft(LOOPS, statement)
        _claim_stacked(evidence, draft, statement.trips)
        evidence.claim(draft, rows)
        evidence.claim(draft, evidence.connected(instead, lambda each: not op_name_of(each), is_added=not is_added))


def _is_of_loop(instruction: Instruction) -> bool:
    return not (op_name := op_name_of(instruction)) or "/while" in op_name


def _claim_stacked(evidence: Evidence, draft: Draft, trips: Sequence[int]) -> None:
    """Arrays of all iterations in place of those of one."""
    for row, position, pair, _ in evidence.open_changes("shape"):
        old, new = pair.before.shape, pair.after.shape
        if isinstance(old, ArrayShape) and isinstance(new, ArrayShape):
            small, large = sorted((old.dimensions, new.dimensions), key=len)
            # jax.lax.scan stacks per-iteration values along a new first dimension.
            if large[1:] == small and large[:1] and large[0] in trips:
                evidence.claim_change(draft, row, position)
                for following, change in enumerate(pair.changes):
                    if change.kind == "sharding" or change.name in ("frontend_attributes", *DIMENSION_NUMBERS):
                        evidence.claim_change(draft, row, following)


def _is_written(loop: Instruction, old: Program, new: Program) -> bool:
    """Whether the user's program has the loop; compilers make loops of scatters and sorts."""
    return not (old.is_compiled or new.is_compiled) or "while" in op_name_of(loop).rpartition("/")[2]


def _loops(computations: Sequence[Computation]) -> Iterator[Instruction]:
    for computation in computations:
        yield from (each for each in computation.instructions if each.opcode == opcodes.WHILE)


def _inside(loops: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yields the instructions of the called computations, and of what those call, once each."""
    seen: set[Computation] = set()
    todo = [called for each in loops for called in each.called_computations]
    while todo:
        computation = todo.pop()
        if computation not in seen:
            seen.add(computation)
            yield from computation.instructions
            todo += [called for each in computation.instructions for called in each.called_computations]


# --- recomputation ---
# Values that are computed again in the backward pass, as `jax.checkpoint` asks for, in only one of the modules.


REMATERIALIZATION: Final = 15
"""Rank of the drafts."""
# Scopes that JAX writes: checkpoint around the function, rematted_computation in the backward pass; remat is older.
_AGAIN: Final = ("rematted_computation", "checkpoint", "remat")


def _is_again(instruction: Instruction) -> bool:
    return "rematted_computation" in op_name_of(instruction)


def _count(module: Module) -> int:
    return sum(map(_is_again, module.instructions)) if "rematted_computation" in module.source.text else 0


def find_rematerialization(evidence: Evidence) -> None:
    """A draft for rematerialization that was added or removed; it claims the operations, and their other op_names."""
    counts = _count(evidence.diff.before), _count(evidence.diff.after)
    if counts[0] == counts[1]:
        return
    is_added = counts[1] > counts[0]
    alone = evidence.unowned(is_added=is_added)
    seeds = [each for each in alone if any(word in op_name_of(each) for word in _AGAIN)]
    if not seeds:
        return
    statement = RematerializationChange(is_added, sum(map(_is_again, alone)), _scopes_of(filter(_is_again, alone)))
    draft = evidence.draft(REMATERIALIZATION, statement)
    evidence.claim(draft, evidence.connected(seeds, lambda each: not op_name_of(each), is_added=is_added))
    for row, at, _, change in evidence.open_changes("metadata"):
        words = (change.before, change.after)
        if change.name == "op_name" and any((word in words[0]) != (word in words[1]) for word in _AGAIN):
            evidence.claim_change(draft, row, at)
