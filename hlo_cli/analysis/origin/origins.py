"""Where does each instruction of a module come from, and by which cause are costs summed?

A cause is a source line, a scope, an argument, or the compiler pass that made the instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from weakref import ref

from hlo_cli.analysis.cache import cached_per_module, computed_once
from hlo_cli.analysis.origin.scopes_and_moves import (
    UNKNOWN,
    Moves,
    Origin,
    Step,
    Value,
    generalize,
    scope_of,
    with_scope,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.metadata import NO_METADATA, Metadata, SourceLocation, program_frame
from hlo_cli.ir.garbage import no_garbage_collection
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.notation import index_suffix
from hlo_cli.ir.operations import FORWARDING
from hlo_cli.ir.shape import ShapeIndex, subshape

if TYPE_CHECKING:
    from hlo_cli.analysis.origin.inferred_origins import Arguments, Inference


# --- origins of a module ---
# The origins of a module's instructions: their own metadata, each stack of calls followed once.


_Own: TypeAlias = tuple[Metadata, Origin, tuple[str, str] | None]
"""Metadata, the origin that they tell, and its source with the scopes, if there is a source."""


class Origins:
    """The origins of a module's instructions, looked up on demand."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up; the module is held weakly, as results are cached with it."""
        self._module = ref(module)
        self._frames = module.stack_frames
        self._stacks: dict[int, tuple[SourceLocation, ...]] = {}
        self._own: dict[Instruction, _Own] = {}
        self._same: dict[int, _Own] = {}
        self._found: dict[Value, Origin] = {}
        self._placed: dict[Value, Origin] = {}

    def own(self, instruction: Instruction) -> Origin:
        """The origin in the instruction's own metadata.

        >>> from hlo_cli import parse_module
        >>> text = 'r = f32[2] iota(), iota_dimension=0, metadata={op_name="a/iota" source_file="a.py" source_line=3}'
        >>> module = parse_module(text)
        >>> origins_of(module).own(module.entry.root).source
        'a.py:3'
        """
        return self._read_own(instruction)[1]

    def of(self, instruction: Instruction) -> Origin:
        """The origin of an instruction: its own, completed by that of the nearest instruction that tells more.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m  ENTRY e {
        ...   w = f32[2] parameter(0), metadata={op_name="params['w']"}
        ...   c = f32[2] copy(w)
        ...   ROOT n = f32[2] negate(c), metadata={op_name="jit(f)/loss/neg" source_file="a.py" source_line=3} }'''
        >>> module = parse_module(text)
        >>> origin = origins_of(module).of(module.instruction("c"))
        >>> origin.source, origin.argument_name, origin.relation, origin.teller
        ('a.py:3', "params['w']", 'used by', <negate n>)
        """
        return self.of_value(instruction, ())

    def of_value(self, instruction: Instruction, index: ShapeIndex) -> Origin:
        """The origin of an element of a tuple, or of the whole result for index ()."""
        value = instruction, index
        if (found := self._found.get(value)) is None:
            found = self._found[value] = self._origin(value)
        return found

    def without_argument(self, instruction: Instruction, index: ShapeIndex = ()) -> Origin:
        """The origin of an element of a tuple, or of the whole result, without its argument, which is faster.

        >>> from hlo_cli import parse_module
        >>> module = parse_module('r = f32[2] negate(p), metadata={source_file="a.py" source_line=3}')
        >>> origins_of(module).without_argument(module.entry.root).source
        'a.py:3'
        """
        value = instruction, index
        if (found := self._found.get(value) or self._placed.get(value)) is None:
            found = self._placed[value] = self._place_of(value)
        return found

    def argument(self, instruction: Instruction, index: ShapeIndex = ()) -> Instruction | None:
        """The entry parameter whose value an element of a tuple is, or the whole result; None if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> origins_of(module).argument(module.entry.root)
        <parameter p>
        """
        return self._arguments.argument((instruction, index))

    def is_of_several_callers(self, instruction: Instruction, index: ShapeIndex = ()) -> bool:
        """Whether an element of a tuple, or the whole result, is what several callers pass, so no argument is known."""
        return self._arguments.is_of_several_callers((instruction, index))

    @property
    def moves(self) -> Moves:
        """The steps back from the values of the module."""
        return self._arguments.moves

    def moves_of(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[Step, ...]:
        """The steps back from a value to the one that it is, moved but not computed; empty if it is computed.

        >>> from hlo_cli import parse_module
        >>> module = parse_module("HloModule m  ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] copy(p) }")
        >>> [(step.relation, step.value[0].name) for step in origins_of(module).moves_of(module.entry.root)]
        [('copy of', 'p')]
        """
        return tuple(self._arguments.moves.chain((instruction, index)))

    def _origin(self, value: Value) -> Origin:
        placed = self.without_argument(*value)
        argument = self._arguments.argument(value)
        return placed if argument is None else replace(placed, argument=argument)

    def _place_of(self, value: Value) -> Origin:
        own = self.own(value[0])
        attribution = self._inference.attribution_of(value) if not own.stack else None
        if attribution is None:
            return own
        # Its own scope, where an instruction has one, is better than any other's.
        theirs = self.own(attribution.teller)
        op_name = with_scope(theirs.op_name, attribution.scope) if attribution.scope else theirs.op_name
        # An instruction may have kept its op_name without its source line.
        op_name = own.op_name if scope_of(own.op_name) else op_name
        return Origin(op_name, theirs.stack, None, attribution.teller, attribution.relation)

    def of_all(self, instructions: Iterable[Instruction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The distinct op_names and places in the metadata of several instructions, in their order."""
        found = [self.own(each) for each in instructions if "metadata=" in each.raw[1]]
        op_names = dict.fromkeys(each.op_name for each in found if each.op_name)
        return tuple(op_names), tuple(dict.fromkeys(each.source for each in found if each.source))

    @cached_property
    def _inference(self) -> Inference:
        module = self._module()
        assert module is not None, "origins are asked for while their module exists"
        from hlo_cli.analysis.origin.inferred_origins import Inference

        with no_garbage_collection():
            return Inference(module, self._arguments, self._place)

    @cached_property
    def _arguments(self) -> Arguments:
        module = self._module()
        assert module is not None, "origins are asked for while their module exists"
        from hlo_cli.analysis.origin.inferred_origins import Arguments

        return Arguments(Moves(module))

    def _place(self, instruction: Instruction) -> tuple[str, str] | None:
        """The source and the scope of an instruction with a source location of its own."""
        return self._read_own(instruction)[2]

    def _read_own(self, instruction: Instruction) -> _Own:
        if (found := self._own.get(instruction)) is None:
            found = self._own[instruction] = self._shared(instruction.metadata)
        return found

    def _shared(self, metadata: Metadata) -> _Own:
        """The origin and the place of all instructions with the same metadata; kept by identity, which is fast."""
        # Metadata objects are shared by all instructions with the same text.
        found = self._same.get(id(metadata))
        if found is None:
            origin = UNKNOWN if metadata is NO_METADATA else Origin(metadata.op_name, self._stack(metadata))
            place = (origin.source, origin.op_name.rpartition("/")[0]) if origin.stack else None
            found = self._same[id(metadata)] = metadata, origin, place
        return found

    def _stack(self, metadata: Metadata) -> tuple[SourceLocation, ...]:
        if (frame := metadata.stack_frame_id) and frame not in self._stacks:
            self._frames.stack_sharing(frame, self._stacks)
        if stack := self._stacks.get(frame):
            return stack
        return (SourceLocation(metadata.source_file, metadata.source_line),) if metadata.source_file else ()


def origins_of(module: Module) -> Origins:
    """Returns the origins of a module's instructions; computed once per module."""
    return cached_per_module(_origins, module)


def _origins(module: Module) -> Origins:
    return Origins(module)


# --- elements of tuples ---
# The instruction that first defines an element of a tuple, found through tuples, loops, calls, and branches.


_MAX_STEPS: Final = 1000  # nested loops and calls take a step each; the bound is for circles of damaged modules
_PASSING: Final = FORWARDING | {opcodes.CALL, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.TUPLE}


class Carried:
    """Definers of the elements of tuples, looked up on demand."""

    def __init__(self, module: Module) -> None:
        """Prepares the look-up."""
        self._moves = origins_of(module).moves

    def definer(self, instruction: Instruction, index: ShapeIndex = ()) -> tuple[Instruction, ShapeIndex, bool]:
        """Returns the instruction that defines an element first, its index there, and whether a loop changes it.

        Beginning at an instruction that is neither a tuple nor carried by a loop, the result is that instruction.

        >>> from hlo_cli import parse_module
        >>> text = '''HloModule m
        ... b { p = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(p), index=0  j = s32[] negate(i)
        ...   w = f32[2] get-tuple-element(p), index=1  ROOT t = (s32[], f32[2]) tuple(j, w) }
        ... c { p = (s32[], f32[2]) parameter(0)  ROOT q = pred[] custom-call(p) }
        ... ENTRY e { z = s32[] constant(0)  a = f32[2] parameter(0)  t = (s32[], f32[2]) tuple(z, a)
        ...   ROOT l = (s32[], f32[2]) while(t), condition=c, body=b }'''
        >>> module = parse_module(text)
        >>> [(d.name, changed) for d, _, changed in (Carried(module).definer(module.entry.root, (n,)) for n in (0, 1))]
        [('z', True), ('a', False)]
        """
        value, is_changed = (instruction, index), False
        for _ in range(_MAX_STEPS):
            loop = self._loop_of(value)
            if loop is not None:
                body = loop.called_computations[0] if loop.called_computations else None
                # An element that the body returns unchanged is still the argument that it began as.
                is_changed = is_changed or body is None or not self._moves.is_kept(body, value[1])
                value = loop.operands[0], (*loop.operand_index(0), *value[1])
            elif (before := self._before(value)) is not None:
                value = before
            else:
                break
        return *value, is_changed

    def _loop_of(self, value: Value) -> Instruction | None:
        """The loop that carries a value: an element of its result, or of the parameter of its body or condition."""
        instruction, index = value
        if instruction.opcode == opcodes.PARAMETER and not self._moves.is_shared(instruction.computation):
            instruction, _ = self._moves.first_caller.get(instruction.computation, (instruction, 0))
        return instruction if instruction.opcode == opcodes.WHILE and index and instruction.operands else None

    def _before(self, value: Value) -> Value | None:
        """The value that another one is, passed on as it is."""
        instruction, _ = value
        if instruction.opcode not in _PASSING or (
            instruction.opcode == opcodes.PARAMETER and self._moves.is_shared(instruction.computation)
        ):
            return None
        step = self._moves.step(value)
        return step.value if step is not None else None


# --- keys that sum up costs ---
# Keys that sum up the costs of a program by cause: source line, named scope, argument, or compiler pass.
#
# A fusion has the key of its own metadata, not those of the operations in its body, so that each cost has one key. A
# value that a loop carries has the key of its initial value.


By = Literal["source", "scope", "argument", "pass"]
"""What a key is: a line of the program, a named scope, an argument of the entry computation, or a compiler pass."""

UNKNOWN_KEY: Final = "(unknown)"
ARGUMENTS_KEY: Final = "(arguments)"
"""Key of an argument among source lines and scopes: no line computes it."""
NO_SCOPE_KEY: Final = "(no scope)"
COMPUTED_KEY: Final = "(computed)"
"""Key of a value that is not an argument, among arguments."""
PROGRAM_KEY: Final = "(program)"
"""Key of an instruction that no pass made, among passes: the first dump has it."""
LATER_KEY: Final = "(after the last pass dump)"
"""Key of an instruction that none of the per-pass dumps has, among passes."""
OTHER_KEYS: Final = (UNKNOWN_KEY, ARGUMENTS_KEY, NO_SCOPE_KEY, COMPUTED_KEY, PROGRAM_KEY, LATER_KEY)
"""Keys that name no cause."""

_NO_PASSES: Final[Mapping[Instruction, str]] = {}
# copy-start returns the copy first, all other starts second.
_RESULTS: Final[tuple[ShapeIndex, ...]] = ((0,), (1,))
"""Elements of an async start that tell its key if the start does not: copies have their result first, others second."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a cost: its text, the `name` from which the numbers of layers are not removed, and whether inferred.

    >>> Key("layers/*/attention", "layers/7/attention").text
    'layers/*/attention'
    """

    text: str
    name: str
    is_inferred: bool = False


class Keys:
    """The keys of a module's instructions and of the elements of their results."""

    def __init__(self, module: Module, by: By, passes: Mapping[Instruction, str]) -> None:
        """`passes` gives the pass that made an instruction."""
        self.by: Final = by
        self._module = module  # origins hold it weakly
        self._passes = passes
        self._origins = origins_of(module)
        self._carried = Carried(module)
        self._known: dict[tuple[Instruction, ShapeIndex], Key] = {}
        self._general_arguments = _general_arguments(module) if by == "argument" else {}

    def __call__(self, instruction: Instruction, index: ShapeIndex = ()) -> str:
        """The text of a key; that of the element at `index` if the result is a tuple."""
        return self.of(instruction, index).text

    def of(self, instruction: Instruction, index: ShapeIndex = ()) -> Key:
        """The key of an instruction, or of the element at `index` if its result is a tuple.

        >>> from hlo_cli import parse_module
        >>> text = 'p = f32[2] parameter(0), metadata={op_name="w"}  r = f32[2] negate(p), metadata={op_name="f/3/neg"}'
        >>> module = parse_module(f"HloModule m  ENTRY e {{ {text} }}")
        >>> keys = keys_of(module, "scope")
        >>> [keys.of(instruction) for instruction in module.instructions]
        [Key(text='(arguments)', name='(arguments)', is_inferred=False), Key(text='f/*', name='f/3', is_inferred=False)]
        """
        result = self._known.get((instruction, index))
        if result is None:
            result = self._key(instruction, index)
            # The tuple of a start has no metadata of its own in most dumps; its result has.
            if result.text == UNKNOWN_KEY and not index and instruction.opcode.endswith("-start"):
                results = (
                    self._key(instruction, result_index)
                    for result_index in _RESULTS
                    if subshape(instruction.shape, result_index) is not None
                )
                result = next((key for key in results if key.text != UNKNOWN_KEY), result)
            self._known[instruction, index] = result
        return result

    def of_use(self, instruction: Instruction, index: ShapeIndex = ()) -> Key:
        """The key of a value; of an argument, the source line or scope of the nearest instruction that uses it.

        >>> from hlo_cli import parse_module
        >>> text = 'p = f32[2] parameter(0)  r = f32[2] negate(p), metadata={op_name="f/neg" source_file="a.py"'
        >>> module = parse_module(f"HloModule m  ENTRY e {{ {text} source_line=3}} }}")
        >>> keys_of(module, "source").of_use(module.entry.parameters[0])
        Key(text='a.py:3', name='a.py:3', is_inferred=True)
        """
        key = self.of(instruction, index)
        if key.text != ARGUMENTS_KEY:
            return key
        used = self._place(instruction, index, is_own=False)
        return key if used.text == UNKNOWN_KEY else used

    def _key(self, instruction: Instruction, index: ShapeIndex) -> Key:
        if self.by == "pass":
            made_by = self._passes.get(instruction, UNKNOWN_KEY)
            return Key(made_by, made_by)
        definer, place, is_changed = self._carried.definer(instruction, index)
        is_argument = definer.opcode == opcodes.PARAMETER and definer.computation.is_entry
        if self.by == "argument":
            argument = definer if is_argument else self._origins.argument(definer, place)
            if argument is None or is_changed:
                is_unknown = not is_changed and self._origins.is_of_several_callers(definer, place)
                return Key(UNKNOWN_KEY, UNKNOWN_KEY) if is_unknown else Key(COMPUTED_KEY, COMPUTED_KEY)
            is_inferred = argument is not instruction
            return self._argument(argument, place if is_argument else (), is_inferred=is_inferred)
        if is_argument and not is_changed:
            return Key(ARGUMENTS_KEY, ARGUMENTS_KEY, definer is not instruction)
        if definer is not instruction and (key := self._place(definer, place, is_own=False)).text != UNKNOWN_KEY:
            return key
        return self._place(instruction, index, is_own=True)

    def _place(self, definer: Instruction, index: ShapeIndex, *, is_own: bool) -> Key:
        """The source line or scope of a value."""
        origin = self._origins.own(definer)
        if not origin.stack:  # the origin of a value with a stack is its own, and the argument does not matter here
            origin = self._origins.without_argument(definer, index)
        is_inferred = origin.is_inferred or not is_own
        if self.by == "source":
            frame = program_frame(origin.stack)
            return Key(UNKNOWN_KEY, UNKNOWN_KEY) if frame is None else Key(str(frame), str(frame), is_inferred)
        if not origin.op_name:
            return Key(UNKNOWN_KEY, UNKNOWN_KEY)
        scope = _scope(origin.op_name)
        return Key(_generalize(scope), scope, is_inferred and origin.op_name != definer.metadata.op_name)

    def _argument(self, argument: Instruction, index: ShapeIndex, *, is_inferred: bool) -> Key:
        suffix = index_suffix(index)
        name = argument.metadata.op_name or argument.name
        return Key(self._general_arguments.get(argument, name) + suffix, name + suffix, is_inferred)


def keys_of(module: Module, by: By, passes: Mapping[Instruction, str] | None = None) -> Keys:
    """Returns the keys of a module's instructions: a function of an instruction, or of an element of its result.

    `passes` is required for `pass`: the pass that made each instruction.

    >>> from hlo_cli import parse_module
    >>> module = parse_module('r = f32[2] iota(), iota_dimension=0, metadata={source_file="a.py" source_line=3}')
    >>> keys_of(module, "source")(module.entry.root), keys_of(module, "argument")(module.entry.root)
    ('a.py:3', '(computed)')
    """
    return computed_once(Keys, module, by, passes or _NO_PASSES)


@lru_cache(maxsize=1 << 16)
def _generalize(name: str) -> str:
    return generalize(name)


@lru_cache(maxsize=1 << 16)
def _scope(op_name: str) -> str:
    return scope_of(op_name) or NO_SCOPE_KEY


def _general_arguments(module: Module) -> dict[Instruction, str]:
    """Names of arguments without numbers of layers, where all arguments that such a name covers have one shape."""
    groups: dict[str, list[Instruction]] = {}
    for parameter in module.entry.parameters:
        if op_name := parameter.metadata.op_name:
            groups.setdefault(generalize(op_name), []).append(parameter)
    return {
        parameter: name
        for name, group in groups.items()
        if len(group) > 1 and len({each.shape for each in group}) == 1
        for parameter in group
    }


# --- the pass that made an instruction ---
# The first of a module's dumps, one after each pass, that has it.


def first_dumps(
    module: Module, earlier: Iterable[Module], instructions: Iterable[Instruction] | None = None
) -> dict[Instruction, int]:
    """Returns how many dumps back instructions of a module are found, without a gap; 0 if the latest has it not.

    All instructions unless some are given. `earlier` are the dumps before the module, the latest first; they are read
    only as long as any instruction is found. An instruction is found by its name, its opcode, and its array sizes; if
    it was renamed, by its op_name in place of its name, where only one instruction of each dump has it.

    >>> from hlo_cli import parse_module
    >>> texts = ["ROOT b = f32[2] negate(p)", "ROOT b = f32[2] negate(p)", "ROOT b = f32[2] copy(p)"]
    >>> last, *older = [parse_module("HloModule m ENTRY e { p = f32[2] parameter(0) " + t + " }") for t in texts]
    >>> {each.name: back for each, back in first_dumps(last, older).items()}
    {'p': 2, 'b': 1}
    """
    dumps_back = dict.fromkeys(module.instructions if instructions is None else instructions, 0)
    sought = {instruction: instruction for instruction in dumps_back}  # each instruction as it is in the dump before
    latest = module
    for back, dump in enumerate(earlier if dumps_back else (), 1):
        named = {(instruction.name, instruction.opcode): instruction for instruction in dump.instructions}
        still: dict[Instruction, Instruction] = {}
        renamed_away: dict[Instruction, Instruction] = {}
        for instruction, latest_form in sought.items():
            before = named.get((latest_form.name, latest_form.opcode))
            if before is not None and _sizes(before) == _sizes(latest_form):
                still[instruction] = before
            elif latest_form.metadata.op_name:
                renamed_away[instruction] = latest_form
        if renamed_away:
            unique_before, unique_after = _unique(dump.instructions), _unique(latest.instructions)
            renamed = {
                instruction: unique_before.get(_likeness(latest_form))
                for instruction, latest_form in renamed_away.items()
                if unique_after.get(_likeness(latest_form)) is latest_form
            }
            still |= {instruction: before for instruction, before in renamed.items() if before is not None}
        dumps_back |= dict.fromkeys(still, back)
        sought, latest = still, dump
        if not sought:
            break
    return dumps_back


def _unique(instructions: Iterable[Instruction]) -> dict[Hashable, Instruction]:
    """The instructions that no other is like."""
    listed = [(_likeness(each), each) for each in instructions if each.metadata.op_name]
    count = Counter(key for key, _ in listed)
    return {key: each for key, each in listed if count[key] == 1}


def _likeness(instruction: Instruction) -> Hashable:
    return instruction.opcode, _sizes(instruction), instruction.metadata.op_name


def _sizes(instruction: Instruction) -> str:
    return instruction.shape.to_string(layout=False)
