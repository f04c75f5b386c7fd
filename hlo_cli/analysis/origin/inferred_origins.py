"""Where does an instruction come from that has no source location: from the nearest one that has?"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from hlo_cli.analysis.dataflow.dependencies import users_of
from hlo_cli.analysis.fusion.fusion_bodies import all_fused, heroes_of, roots_of
from hlo_cli.analysis.origin.layers import Layers, Likeness, Neighbor, Place, Surroundings
from hlo_cli.analysis.origin.scopes_and_moves import Moves, Step, Value, all_general, scope_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import OriginalArray, OriginalTuple, OriginalValue
from hlo_cli.ir.instruction import Computation, Instruction, Users
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import ASYNCHRONOUS, COLLECTIVES, DONES, MATMULS, RUNNERS
from hlo_cli.ir.shape import ShapeIndex, TupleShape

# --- original arrays that XLA recorded ---
# Original values: the arrays of the program before compiler passes that XLA recorded for an instruction.


def original_array(instruction: Instruction, index: ShapeIndex = ()) -> OriginalArray | None:
    """Returns the array that an element of an instruction's result was, None if XLA did not record it.

    >>> from hlo_cli import parse_module
    >>> root = parse_module('r = (f32[2], f32[2]) tuple(a, b), origin={({"dot.1"}, {})}').entry.root
    >>> str(original_array(root, (0,))), original_array(root, (1,))
    ('{"dot.1"}', None)
    """
    # Few instructions have it, and reading attributes is slow.
    if "origin={" not in instruction.raw[1]:
        return None
    value = instruction.value_of("origin", OriginalValue)
    tree = value.tree if value is not None else None
    for at in index:
        tree = tree.elements[at] if isinstance(tree, OriginalTuple) and at < len(tree.elements) else None
    return tree if isinstance(tree, OriginalArray) and tree.instruction_name else None


# --- metadata of fusions ---
# Fusions: which instruction of a body XLA takes the metadata of a fusion and of its results from.
#
# Derived from dumps of TPU compilers: a fusion has the metadata of its first root, before a matmul joined it, of which
# it then has the metadata; its get-tuple-elements keep those of before.


class FusionSources:
    """The instructions that fusions have their source locations from."""

    __slots__ = ("_found", "_sourced")

    def __init__(self, sourced: Container[Instruction]) -> None:
        """Takes the instructions with a source location of their own."""
        self._sourced = sourced
        self._found: dict[Instruction, tuple[Instruction | None, Instruction | None]] = {}

    def of(self, fusion: Instruction) -> Instruction | None:
        """The matmul of a fusion, else the instruction of its first result; None if none has a source location.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m
        ... f { p = f32[2] parameter(0)  n = f32[2] negate(p)  ROOT c = f32[2] convert(n) }
        ... ENTRY e { q = f32[2] parameter(0)  ROOT r = f32[2] fusion(q), kind=kLoop, calls=f }'''
        >>> module = parse_module(text)
        >>> FusionSources({module.instruction("n")}).of(module.entry.root)
        <negate n>
        """
        return self._both(fusion)[0]

    def of_elements(self, fusion: Instruction) -> Instruction | None:
        """The instruction that elements of a fusion's result have their source location from, if a matmul joined it."""
        matmul, first = self._both(fusion)
        return first if matmul is not first else None

    def _both(self, fusion: Instruction) -> tuple[Instruction | None, Instruction | None]:
        if fusion not in self._found:
            body = fusion.called_computations[0] if fusion.called_computations else None
            self._found[fusion] = self._sources(body) if body is not None else (None, None)
        return self._found[fusion]

    def _sources(self, body: Computation) -> tuple[Instruction | None, Instruction | None]:
        inner = list(all_fused(body))
        first = self._first_result(body, inner)
        if any(each.opcode in MATMULS for each in inner):
            # Seen in TPU dumps: the metadata is that of the matmul, wherever it stands in the body.
            matmul = next((each for each in heroes_of(body) if each in self._sourced), None)
            return matmul or first, first
        return first, first

    def _first_result(self, body: Computation, inner: list[Instruction]) -> Instruction | None:
        """The first root, or that from which it is computed; else the last instruction with a source location."""
        result = next(iter(roots_of(body)), None)
        # As many steps as there are instructions, so that a circle ends.
        for _ in inner:
            if result is None or result in self._sourced:
                break
            result = result.operands[0] if result.operands else None
        if result is not None and result in self._sourced:
            return result
        return next((each for each in reversed(inner) if each in self._sourced), None)


# --- nearest users ---
# The nearest users of values: for each value, the first instruction with a source location that reads it.


def _nearest_users(module: Module, moves: Moves, sourced: Container[Instruction]) -> dict[Value, Instruction]:
    """Returns the nearest sourced user of each value, through moves; the first in the text of equally near ones.

    The bodies of fusions tell which of their instructions uses an operand; a fusion itself is asked last. Each value
    is visited once.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) c = f32[2] copy(p) n = f32[2] negate(c) }")
    >>> _nearest_users(module, Moves(module), {module.instruction("n")})
    {(<copy c>, ()): <negate n>, (<parameter p>, ()): <negate n>}
    """
    nearest: dict[Value, Instruction] = {}
    users = [each for each in module.instructions if each in sourced]
    # Parameters of a body say which operation reads an operand; the fusion's own metadata is only that of its root.
    for is_fusion in (False, True):
        near: list[Value] = []
        for user in users:
            if (user.opcode == opcodes.FUSION) is is_fusion:
                near += [value for value in _operand_values(user) if nearest.setdefault(value, user) is user]
        while near:
            further: list[Value] = []
            for value in near:
                step = moves.step(value)
                # A sourced instruction tells about itself; the walk would give its user's source to what it computes.
                if step is None and value[0] in sourced:
                    continue  # its own operands have it as their user
                for before in _operand_values(value[0]) if step is None else (step.value,):
                    if before not in nearest:
                        nearest[before] = nearest[value]
                        further.append(before)
            near = further
    return nearest


def _operand_values(instruction: Instruction) -> list[Value]:
    """The values that an instruction reads: its operands, or elements of them.

    >>> from hlo_cli import parse_module
    >>> _operand_values(parse_module("r = f32[2] add(a, b)").entry.root)
    [(<parameter a>, ()), (<parameter b>, ())]
    """
    return [(operand, instruction.operand_index(at)) for at, operand in enumerate(instruction.operands)]


def _is_filler(instruction: Instruction) -> bool:
    """Whether a value is a constant or filled with one, which passes share among the places that use it.

    >>> from hlo_cli import parse_module
    >>> _is_filler(parse_module("r = s32[2] iota(), iota_dimension=0").entry.root)
    True
    """
    # Simplification and CSE make one constant of many, so its metadata is that of any of them.
    if instruction.opcode == opcodes.BROADCAST and instruction.operands:
        return instruction.operands[0].opcode == opcodes.CONSTANT
    return instruction.opcode in (opcodes.CONSTANT, opcodes.IOTA)


# --- walks back through moves ---
# Walks back from values through moves, to the instruction that tells their source, or to the argument they are.


class Arguments:
    """The arguments that values are, each value visited once."""

    __slots__ = ("_ends", "moves")

    def __init__(self, moves: Moves) -> None:
        """Takes the steps back of a module's values."""
        self.moves = moves
        self._ends: dict[Value, Instruction | None] = {}

    def argument(self, value: Value) -> Instruction | None:
        """The entry parameter that a value is, moved; None if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> Arguments(Moves(module)).argument((module.entry.root, ()))
        <parameter p>
        """
        end = self._end(value)
        return end if end is not None and end.computation.is_entry else None

    def is_of_several_callers(self, value: Value) -> bool:
        """Whether several callers pass what a value is, moved: they may pass several arguments.

        >>> from hlo_cli import parse_module
        >>> called = "f { q = f32[2] parameter(0)  ROOT c = f32[2] copy(q) }"
        >>> calls = "x = f32[2] call(p), to_apply=f  ROOT y = f32[2] call(r), to_apply=f"
        >>> parameters = "p = f32[2] parameter(0)  r = f32[2] parameter(1)"
        >>> module = parse_module(f"HloModule m  {called}  ENTRY e {{ {parameters}  {calls} }}")
        >>> Arguments(Moves(module)).is_of_several_callers((module.instruction("c"), ()))
        True
        """
        end = self._end(value)
        return end is not None and not end.computation.is_entry

    def _end(self, value: Value) -> Instruction | None:
        """The entry parameter that a value is, or a parameter that several callers pass."""
        ends = self._ends
        return ends[value] if value in ends else _walk(value, ends, self._before, _no_instruction)

    def _before(self, value: Value) -> tuple[Value | None, Instruction | None]:
        step = self.moves.step(value)
        if step is not None and step.is_same:
            return step.value, None
        if step is not None:
            return None, value[0] if self.moves.is_of_several_callers(value) else None
        instruction = value[0]
        is_argument = instruction.opcode == opcodes.PARAMETER and instruction.computation.is_entry
        return None, instruction if is_argument else None


class Tellers:
    """The instructions that tell the source of values, each value visited once."""

    __slots__ = ("_fusions", "_known", "_moves", "_sourced")

    def __init__(self, moves: Moves, sourced: Container[Instruction], fusions: FusionSources) -> None:
        """Takes the instructions with a source location of their own, and the sources of fusions."""
        self._moves = moves
        self._sourced = sourced
        self._fusions = fusions
        self._known: dict[Value, Instruction | None] = {}

    def upward(self, value: Value) -> Instruction | None:
        """The first instruction with a source location back through moves; not a constant, as these are shared.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) n = negate(p) ROOT c = copy(n) }")
        >>> negated = {module.instruction("n")}
        >>> Tellers(Moves(module), negated, FusionSources(negated)).upward((module.entry.root, ()))
        <negate n>
        """
        known = self._known
        return known[value] if value in known else _walk(value, known, self._before, self._passed)

    def _before(self, value: Value) -> tuple[Value | None, Instruction | None]:
        instruction, index = value
        if not index:
            teller = instruction if instruction in self._sourced else None
            if teller is None and instruction.opcode == opcodes.FUSION:
                teller = self._fusions.of(instruction)
            if teller is not None:
                return None, None if _is_filler(teller) else teller
        step = self._moves.step(value)
        return (step.value if step is not None else None), None

    def _passed(self, value: Value) -> Instruction | None:
        instruction = value[0]
        return instruction if instruction in self._sourced and not _is_filler(instruction) else None


def _walk(
    value: Value,
    ends: dict[Value, Instruction | None],
    before: Callable[[Value], tuple[Value | None, Instruction | None]],
    passed_by: Callable[[Value], Instruction | None],
) -> Instruction | None:
    """The end of a walk, kept for all values on the way.

    `before` returns the next value, or else what is found; if that is nothing, the last value that `passed_by` takes.
    """
    passed: list[Value] = []
    end: Instruction | None = None
    current: Value | None = value
    while current is not None:
        if current in ends:
            end = ends[current]
            break
        # Set before the walk goes on, which ends circles of damaged modules.
        ends[current] = None
        passed.append(current)
        current, end = before(current)
    for each in reversed(passed):
        end = ends[each] = end if end is not None else passed_by(each)
    return end


def _no_instruction(_: Value) -> None:
    return None


# --- places next to an instruction ---
# The places next to an instruction: those of its operands, its users, its caller, and its arguments.


class Nearby:
    """The surroundings of instructions, looked up on demand."""

    def __init__(
        self, module: Module, arguments: Arguments, tellers: Tellers, place: Mapping[Instruction, tuple[str, str]]
    ) -> None:
        """Takes the source and the path of instructions with their own, and finds the nearest users of all values."""
        self._moves = arguments.moves
        self._arguments = arguments
        self._tellers = tellers
        self._place = place
        self._users: dict[Computation, Users] = {}
        self._found: dict[Instruction, Surroundings] = {}
        self.down = _nearest_users(module, arguments.moves, place)

    def surroundings(self, instruction: Instruction) -> Surroundings:
        """The places of operands and users, with their scopes."""
        if (surroundings := self._found.get(instruction)) is None:
            place = self._place
            values = self.reads(instruction)
            tellers = [self._tellers.upward(each) for each in values]
            users = [place[each] for each in self.users_of(instruction) if each in place]
            if not users and (teller := self.down.get((instruction, ()))) is not None:
                users = [place[teller]]
            caller = self._moves.first_caller.get(instruction.computation)
            if tellers and not users and not any(tellers) and caller is not None and caller[0] in place:
                users = [place[caller[0]]]
            operands = tuple(map(self._from, tellers, values))
            surroundings = self._found[instruction] = Surroundings(operands, frozenset(users))
        return surroundings

    def sources(self, instruction: Instruction) -> Surroundings:
        """The source locations of operands and users; of arguments their names without numbers."""
        operands, users = self.surroundings(instruction)
        # Arguments of layers differ by their numbers only; without these, layers are alike.
        told = tuple([each if each is None else each[:1] if each[0] else ("", each[-1]) for each in operands])
        return Surroundings(told, frozenset([each[:1] for each in users]))

    def neighbors(self, instruction: Instruction) -> list[Neighbor]:
        """The scopes of operands, users, and caller, and the names of arguments that are moved or read."""
        near = self.surroundings(instruction)
        operands = [(position, each) for position, each in enumerate(near.operands) if each is not None and each[0]]
        neighbors = [Neighbor(position, _scope_at(each)) for position, each in operands]
        neighbors += [Neighbor(("user", each[0]), _scope_at(each)) for each in sorted(near.users)]
        caller = self._moves.first_caller.get(instruction.computation)
        if caller is not None and caller[0] in self._place:
            neighbors.append(Neighbor("caller", _scope_at(self._place[caller[0]])))
        for value in ((instruction, ()), *_operand_values(instruction)):
            if label := self._label(value):
                neighbors.append(Neighbor(("argument", all_general(label)), label, is_label=True))
        return neighbors

    def users_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The users within the computation."""
        computation = instruction.computation
        if computation not in self._users:
            self._users[computation] = users_of(computation)
        return self._users[computation].get(instruction, ())

    def reads(self, instruction: Instruction) -> list[Value]:
        """The values that an instruction reads; of a get-tuple-element the element."""
        if (
            instruction.opcode == opcodes.GET_TUPLE_ELEMENT
            and (step := self._moves.step((instruction, ()))) is not None
        ):
            return [step.value]
        return _operand_values(instruction)

    def _from(self, teller: Instruction | None, value: Value) -> Place | None:
        """The place of an operand; for a constant or an array filled with one, its value; else its argument."""
        if teller is not None:
            return self._place[teller]
        operand = value[0]
        if operand.opcode == opcodes.BROADCAST and operand.operands:
            operand = operand.operands[0]
        if operand.opcode == opcodes.CONSTANT:
            return "", operand.raw[0]
        label = self._label(value)
        return ("", label, all_general(label)) if label else None

    def _label(self, value: Value) -> str:
        argument = self._arguments.argument(value)
        return argument.metadata.op_name if argument is not None else ""


def _scope_at(place: Place) -> str:
    """The scope of a source and a path of scopes.

    >>> _scope_at(("model.py:92", "jit(f)/jvp(layers_3)/mlp"))
    'layers_3/mlp'
    """
    return scope_of(f"{place[1]}/")


# --- inference ---
# Inference of origins: for instructions without a source location, the nearest instruction that has one.


# Two of them with equal shapes are common and mean nothing: what they move tells more.
_MOVED_ONLY: Final = COLLECTIVES | ASYNCHRONOUS | DONES | {opcodes.COPY_START, opcodes.PARAMETER, opcodes.TUPLE}
"""Opcodes of instructions that are not recognized by others that are alike, but by what they move."""
_STRICT: Final = (0, 1, 2)  # a copied name, or equal surroundings, hardly ever mislead
_LOOSE: Final = (3, 4)
"""Keys of `Likeness` that are asked before and after users from the same line as operands."""
Transfer: TypeAlias = tuple[str, int | None, str | None]
"""The opcode, the channel, and the devices of a collective."""


class Attribution(NamedTuple):
    """The instruction whose source location a value takes, and what the value is to it.

    `scope` is the value's, if the teller is in another one.
    """

    teller: Instruction
    relation: str
    scope: str = ""


class Inference:
    """The tellers of a module's values."""

    def __init__(
        self, module: Module, arguments: Arguments, place_of: Callable[[Instruction], tuple[str, str] | None]
    ) -> None:
        """Takes the source and scope of instructions that have their own, and finds who tells the others."""
        self.moves: Moves = arguments.moves
        found = ((each, place_of(each)) for each in module.instructions)
        self._place = {each: place for each, place in found if place is not None}
        self._fusions = FusionSources(self._place)
        self._tellers = Tellers(self.moves, self._place, self._fusions)
        self._computations = module.computations
        self._firsts: dict[Computation, Instruction | None] = {}
        self._ancestors: dict[Instruction, Instruction | None] = {}
        self._has_originals = "origin={" in module.source.text
        self._near = Nearby(module, arguments, self._tellers, self._place)
        self._layers = Layers(self._place, self._near.neighbors)
        self._close = Likeness(self._place, self._place.__getitem__, self._near.surroundings)
        self._similar = Likeness(self._place, self._source, self._near.sources)

    def attribution_of(self, value: Value) -> Attribution | None:
        """Who tells the source location of a value that does not have its own."""
        instruction, index = value
        step = self.moves.step(value)
        # From what is recorded to what is guessed: XLA's word, structure, likeness, and only then the neighbors.
        if (attribution := self._originally(instruction, index)) is not None:
            return attribution
        if index:
            return self._moved(step) or self._used(value) or self.attribution_of((instruction, ()))
        if instruction.opcode == opcodes.GET_TUPLE_ELEMENT and (attribution := self._element(instruction)) is not None:
            return attribution
        if instruction.opcode == opcodes.FUSION and (hero := self._fusions.of(instruction)) is not None:
            return Attribution(hero, "fusion of")
        if instruction.opcode in COLLECTIVES and (attribution := self._cloned(instruction)) is not None:
            return attribution
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._applying(caller[0])) is not None:
            sibling = self._first_of(instruction.computation)
            return Attribution(teller, "part of") if sibling is None else Attribution(sibling, "next to")
        if instruction.opcode in MATMULS and caller is not None and caller[0] in self._place:
            return Attribution(caller[0], "part of")
        if instruction.opcode not in _MOVED_ONLY and (attribution := self._like(instruction)) is not None:
            return attribution
        return self._moved(step) or self._used(value) or self._computed(instruction)

    def _originally(self, instruction: Instruction, index: ShapeIndex) -> Attribution | None:
        """The instruction that XLA recorded as the original one, if the module still has it."""
        array = original_array(instruction, index) if self._has_originals else None
        teller = self._named.get(array.instruction_name) if array is not None else None
        return Attribution(teller, "original value") if teller in self._place and teller is not None else None

    def _cloned(self, instruction: Instruction) -> Attribution | None:
        """The same transfer elsewhere: compilers clone collectives into the fusions that start and end them."""
        twin = self._transfers.get(_transfer_of(instruction))
        return Attribution(twin, "like") if twin is not None else None

    @cached_property
    def _transfers(self) -> dict[Transfer, Instruction | None]:
        """The collectives of each channel and groups, if all come from one place."""
        collectives: dict[Transfer, Instruction | None] = {}
        for instruction in self._place:
            if instruction.opcode in COLLECTIVES and (transfer := _transfer_of(instruction))[1] is not None:
                first = collectives.setdefault(transfer, instruction)
                # Channels are reused across loops; two sources make none.
                if first is not None and self._place[first] != self._place[instruction]:
                    collectives[transfer] = None
        return collectives

    @cached_property
    def _named(self) -> dict[str, Instruction]:
        return {each.name: each for computation in self._computations for each in computation.instructions}

    def _element(self, instruction: Instruction) -> Attribution | None:
        """Who tells about a get-tuple-element of a fusion: XLA gives it the metadata of the fusion."""
        made = instruction.operands[0] if instruction.operands else None
        if made is None or made.opcode != opcodes.FUSION:
            return None
        teller = self._fusions.of_elements(made) or (made if made in self._place else self._fusions.of(made))
        return Attribution(teller, "element of") if teller is not None else None

    def _like(self, instruction: Instruction) -> Attribution | None:
        """An instruction that is alike, from the same scope if there is one, or a user between equal lines."""
        if alike := self._close.find(instruction, _STRICT):
            return Attribution(alike[0], "like")
        if (told := self._common(instruction)) is not None:
            return told
        alike = self._close.find(instruction, _LOOSE)
        similar = self._similar.find(instruction)
        # The stricter comparison wins where the two disagree.
        if alike and similar and self._source(alike[0]) != self._source(similar[0]):
            similar = alike
        if not alike and not similar:
            return None
        teller, scope = self._layers.choose(similar or alike, instruction)
        return Attribution(teller, "like", scope)

    def _moved(self, step: Step | None) -> Attribution | None:
        teller = self._tellers.upward(step.value) if step is not None else None
        return Attribution(teller, step.relation) if step is not None and teller is not None else None

    def _used(self, value: Value) -> Attribution | None:
        instruction, index = value
        shape = instruction.shape if not index else None
        elements = range(len(shape.elements)) if isinstance(shape, TupleShape) else ()
        for each in (value, *((instruction, (at,)) for at in elements)):
            if (teller := self._near.down.get(each)) is not None:
                return Attribution(teller, "used by")
        return None

    def _computed(self, instruction: Instruction) -> Attribution | None:
        for operand in _operand_values(instruction):
            if (teller := self._tellers.upward(operand)) is not None:
                return Attribution(teller, "computed from")
        caller = self.moves.first_caller.get(instruction.computation)
        if caller is not None and (teller := self._tellers.upward((caller[0], ()))) is not None:
            return Attribution(teller, "part of")
        teller = self._ancestor(instruction)
        return Attribution(teller, "computed from") if teller is not None else None

    def _first_of(self, computation: Computation) -> Instruction | None:
        """The first instruction of a computation with a source location of its own."""
        if computation not in self._firsts:
            self._firsts[computation] = next((each for each in computation.instructions if each in self._place), None)
        return self._firsts[computation]

    def _ancestor(self, instruction: Instruction) -> Instruction | None:
        """The first teller among the instructions that one is computed from, first operands first."""
        ancestors = self._ancestors
        waiting = [(instruction, self._sources_of(instruction))] if instruction not in ancestors else []
        ancestors.setdefault(instruction, None)
        while waiting:
            current, sources = waiting[-1]
            for value in sources:
                if (teller := self._tellers.upward(value) or ancestors.get(value[0])) is not None:
                    ancestors[current] = teller
                    waiting.pop()
                    break
                if value[0] not in ancestors:
                    ancestors[value[0]] = None  # until known: only malformed modules ask again before
                    waiting[-1] = current, chain((value,), sources)  # to be asked again when it is known
                    waiting.append((value[0], self._sources_of(value[0])))
                    break
            else:
                waiting.pop()
        return ancestors[instruction]

    def _sources_of(self, instruction: Instruction) -> Iterator[Value]:
        """What an instruction is computed from: its operands; for a parameter the caller."""
        caller = self.moves.first_caller.get(instruction.computation)
        if instruction.opcode == opcodes.PARAMETER and caller is not None:
            return iter([(caller[0], ())])
        return iter(_operand_values(instruction))

    def _common(self, instruction: Instruction) -> Attribution | None:
        """A user from the same place as an operand: what is between them is from there too."""
        operands = {
            self._place[each][0] for each in map(self._tellers.upward, _operand_values(instruction)) if each is not None
        }
        users = [each for each in self._near.users_of(instruction) if each in self._place]
        found = next((each for each in users if self._place[each][0] in operands), None)
        return Attribution(found, "used by") if found is not None else None

    def _applying(self, caller: Instruction) -> Instruction | None:
        """The instruction that applies a computation to elements, such as a reduction, with a source location."""
        if caller.opcode in RUNNERS or caller.opcode == opcodes.FUSION:
            return None
        return self._tellers.upward((caller, ()))

    def _source(self, instruction: Instruction) -> str:
        return self._place[instruction][0]


def _transfer_of(instruction: Instruction) -> Transfer:
    """The opcode, the channel, which collectives of one program may share, and the devices of a collective."""
    devices = instruction.attribute("replica_groups") or instruction.attribute("source_target_pairs")
    return instruction.opcode, instruction.integer("channel_id"), devices
