"""Which operations does a module have if each counts once, in whatever form it is written, and no work twice?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.dataflow.dependencies import depth_first, executes_callees, passes_on
from hlo_cli.analysis.dataflow.executions import contexts_of
from hlo_cli.analysis.dataflow.value_sets import value_at
from hlo_cli.analysis.query.fields import CollectiveFacts, ReadFact, fields_of, instruction_fields
from hlo_cli.analysis.query.patterns import check_operation_opcode
from hlo_cli.analysis.query.where import Fields, FieldValue, Reader
from hlo_cli.analysis.schedule.async_overlap import AsyncPair, async_pairs
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import COLLECTIVES, FORWARDING
from hlo_cli.ir.shape import Shape, ShapeIndex, TupleShape

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.buffers import OrderIndependentFacts


_PERFORMED: Final = ("product", "convolution", "library", "trips")
_FIELDS_OF_PERFORMED: Final = ("flops", "transcendentals", "intensity", "called_computations", *_PERFORMED)
"""Fields read from `performed`; all others are read from `instruction`."""
_WORK: Final = frozenset(("flops", "transcendentals", "bytes"))
"""Fields of a caller that include those of the instructions in the computations that it calls."""
_SIZES: Final = frozenset(("padded_bytes", "logical_bytes", "padding_bytes", "elements"))
"""Fields of the arrays of a result, which several instructions can have: those that define and that forward them."""

_DEFINED, _FORWARDED, _IN_PLACE = range(3)
"""How an operation has an array: made by it, that of another one, or one for all iterations, in the same memory."""


@dataclass(frozen=True, slots=True)
class LogicalOperation:
    """Operation of a module: where it begins, the instruction that it performs, and the one with its result.

    All three are the same instruction unless the operation is async. `uncounted` is the part of the result's shape that
    no other operation of a sum counts; None for all of it.
    """

    instruction: Instruction
    performed: Instruction
    result: Instruction
    opcode: str
    is_async: bool = False
    uncounted: Shape | None = None

    @property
    def shape(self) -> Shape:
        """The shape of the result, or the part of it that counts in a sum."""
        return self.result.shape if self.uncounted is None else self.uncounted


def logical_operations(module: Module) -> tuple[LogicalOperation, ...]:
    """Logical operations of a module in the order of the text.

    >>> from hlo_cli import parse_module
    >>> text = '''HloModule m
    ... ENTRY e { p = f32[4] parameter(0)
    ...   s = (f32[4], f32[16]) all-gather-start(p), dimensions={0}, replica_groups={{0,1,2,3}}
    ...   ROOT d = f32[16] all-gather-done(s) }'''
    >>> [(each.opcode, str(each.result.shape)) for each in logical_operations(parse_module(text))]
    [('parameter', 'f32[4]{0}'), ('all-gather', 'f32[16]{0}')]
    """
    starts = {pair.start: pair for pair in async_pairs(module).pairs}
    ends = {end for pair in starts.values() for end in _updates_and_dones(pair)}
    inside = {computation for pair in starts.values() for computation in _wrappers(pair)}
    # Fusions that start, update, and end a collective each contain it; it counts once, with its start.
    collective = {each for pair in starts.values() for each in _fused_collectives(pair)}
    return tuple(
        _operation(instruction, starts.get(instruction))
        for computation in module.computations
        if computation not in inside
        for instruction in computation.instructions
        if instruction not in ends and instruction not in collective
    )


def operation_fields(module: Module, attributes: Collection[str] = ()) -> Fields[LogicalOperation]:
    """Fields of logical operations: those of instructions, `async`, `unoverlapped`, and `fusion`.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("r = f32[2] copy(f32[2] p)")
    >>> fields = operation_fields(module)
    >>> [fields.readers["async"].read(each) for each in logical_operations(module)][-1]
    False
    """

    def by(instruction_of: Callable[[LogicalOperation], Instruction]) -> Fields[LogicalOperation]:
        return fields_of(module, attributes, instruction_of, lambda each: each.shape)

    begun, performed, ended = by(lambda each: each.instruction), by(lambda each: each.performed), by(_result)
    read_kernel = instruction_fields(module).readers["kernel"].read
    own: dict[str, Reader[LogicalOperation]] = {
        "opcode": Reader("text", lambda each: each.opcode, check_operation_opcode),
        "collective": Reader("flag", lambda each: each.opcode in COLLECTIVES),
        "async": Reader("flag", lambda each: each.is_async),
        "fusion": Reader("names", _names_of_fusion),
        "op_name": Reader("text", lambda each: _op_name(each.instruction) or _op_name(each.performed)),
        "kernel": Reader("flag", lambda each: read_kernel(each.instruction) or read_kernel(each.performed)),
        "users": ended.readers["users"],
        "is_root": ended.readers["is_root"],
        "bytes": Reader("bytes", lambda each: _bytes(each, performed.readers["bytes"])),
    }
    for name, (kind, read) in CollectiveFacts(module).own_readers().items():
        own[name] = Reader(kind, _of_performed(read))
    performed_readers = {name: performed.readers[name] for name in _FIELDS_OF_PERFORMED}
    return replace(
        begun,
        readers={**begun.readers, **performed_readers, **own},
        places={**begun.places, "attributes": performed.places["attributes"]},
        attribute=performed.attribute,
    )


def counted_once(
    module: Module,
    operations: Sequence[LogicalOperation],
    matching: Iterable[LogicalOperation],
    summed: Collection[str],
) -> list[LogicalOperation]:
    """The operations of a sum of the fields `summed`, without what others among those `matching` count already.

    - Work (flops, transcendentals, and bytes) of an instruction is part of the fusion, reduce, loop, or call that runs
      it. Where the sum multiplies by `trips`, the operations that a loop, call, or conditional runs count in its place.
    - The arrays of get-tuple-element, tuple, bitcast, while, and the parameters of computations are those of the
      operations that define them; fused instructions have arrays only if their fusion does not match.

    `operations` are those of the module.

    >>> from hlo_cli import parse_module
    >>> text = '''f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ... ENTRY e { a = f32[2] parameter(0)  ROOT r = f32[2] fusion(a), kind=kLoop, calls=f }'''
    >>> module = parse_module(text)
    >>> every = logical_operations(module)
    >>> [each.instruction.name for each in counted_once(module, every, every, ["flops"])]
    ['a', 'r']
    >>> [each.instruction.name for each in counted_once(module, every, every[:2], ["padded_bytes"])]
    ['p', 'n']
    """
    found = list(matching)
    if not _WORK.isdisjoint(summed):
        if "trips" in summed:
            found = _with_what_they_run(operations, found)
        # `bytes * trips` counts what loops run, so loops are opened; `bytes` alone counts callers as a whole.
        found = _outermost(module, found, executes_callees if "trips" in summed else _never)
    if not _SIZES.isdisjoint(summed):
        found = _with_own_arrays(module, _outermost(module, found, executes_callees))
    return found


# --- what a sum counts ---


def _never(caller: Instruction) -> bool:
    return False


def _outermost(
    module: Module, matching: Sequence[LogicalOperation], is_open: Callable[[Instruction], bool]
) -> list[LogicalOperation]:
    """Operations that no other one contains: by its fusion, or a caller of another kind that is not open."""
    among = {instruction for each in matching for instruction in (each.instruction, each.performed, each.result)}
    inside: set[Computation] = set()
    # Callers first, so that nested computations know what is around them.
    for computation in reversed(list(depth_first((module.entry,), _callees))):
        is_inside = computation in inside
        for caller in computation.instructions:
            if is_inside or (caller in among and not is_open(caller)):
                inside.update(caller.called_computations)
    return [each for each in matching if each.instruction.computation not in inside]


def _callees(computation: Computation) -> list[Computation]:
    return [called for caller in computation.instructions for called in caller.called_computations]


def _with_what_they_run(
    operations: Sequence[LogicalOperation], matching: Sequence[LogicalOperation]
) -> list[LogicalOperation]:
    """The operations, with all that a loop, call, or conditional among them runs in its place."""
    among = {each.instruction for each in matching}
    waiting = [caller for caller in among if executes_callees(caller)]
    entered: set[Computation] = set()
    while waiting:
        for called in waiting.pop().called_computations:
            if called not in entered:
                entered.add(called)
                waiting.extend(each for each in called.instructions if executes_callees(each))
    return [
        each
        for each in operations
        if (each.instruction in among or each.instruction.computation in entered)
        and not executes_callees(each.instruction)
    ]


def _with_own_arrays(module: Module, matching: Sequence[LogicalOperation]) -> list[LogicalOperation]:
    """The operations with the arrays that no earlier one counts; those that define an array come first."""
    arrays = _Arrays(module)
    counted: set[object] = set()
    own: dict[int, list[ShapeIndex]] = {}
    handed: list[list[tuple[int, ShapeIndex, object]]] = [[], [], []]
    for number, each in enumerate(matching):
        for index, _ in each.result.shape.leaves:
            key, distance = arrays.find(each, index)
            handed[distance].append((number, index, key))
    # Three rounds: arrays that operations make, then forwarded ones, then those updated in place.
    for distance, found in enumerate(handed):
        if distance == _FORWARDED:
            counted.update(_states(arrays, matching))
        elif distance == _IN_PLACE:
            # Memory counts once for all values that are updated in place in it.
            counted.update([arrays.memory(key) for key in counted])
        for number, index, key in found:
            name = arrays.memory(key) if distance == _IN_PLACE else key
            if name not in counted:
                counted.add(name)
                own.setdefault(number, []).append(index)
    return [
        replace(each, uncounted=_part_of(each.result.shape, sorted(own.get(number, []))))
        for number, each in enumerate(matching)
        if number in own or not tuple(each.result.shape.leaves)
    ]


def _states(arrays: _Arrays, matching: Iterable[LogicalOperation]) -> Iterator[object]:
    """What fusions that start a collective return: its result, and semaphores, which are no arrays of the program."""
    for each in matching:
        if each.is_async and each.instruction.opcode == opcodes.FUSION:
            yield from (arrays.at(each.instruction, at) for at, _ in each.instruction.shape.leaves)


def _part_of(shape: Shape, indices: Sequence[ShapeIndex]) -> Shape:
    """The shape with these leaves alone."""
    leaves = dict(shape.leaves)
    if len(indices) == len(leaves):
        return shape
    return TupleShape(tuple(leaves[index] for index in indices))


class _Arrays:
    """The array at an index of an operation's result, named by the place that defines it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._context_of = contexts_of(module).context_of
        self._callers = contexts_of(module).callers

    @cached_property
    def _facts(self) -> OrderIndependentFacts:
        from hlo_cli.analysis.memory.buffers import order_independent_facts

        return order_independent_facts(self._module)

    def find(self, operation: LogicalOperation, index: ShapeIndex) -> tuple[object, int]:
        """What identifies the array, and whether the operation defines it, forwards it, or has it in place."""
        instruction, at = self._outside_fusion(operation.result, index)
        if self._context_of.get(instruction.computation) == "fused":
            return (instruction, at), _DEFINED if instruction is operation.result else _FORWARDED
        flow = self._facts.dataflow if instruction.computation in self._facts.places.base else None
        value = None if flow is None else value_at(flow, instruction, at)
        if flow is None or value is None:
            return (instruction, at), _DEFINED
        definer = flow.places.instructions[flow.places.owner[value]]
        # A phi merges several arrays into one memory.
        if value in flow.phis or (definer.opcode == opcodes.FUSION and passes_on(definer, flow.places.index(value))):
            # A fused done hands on the array that its start defines, and both are this operation.
            return value, _DEFINED if operation.is_async and definer is operation.result else _IN_PLACE
        is_own = definer in (operation.instruction, operation.performed, operation.result)
        return value, _DEFINED if is_own else _FORWARDED

    def at(self, instruction: Instruction, index: ShapeIndex) -> object:
        """What identifies the array at an index of an instruction that is not fused."""
        value = value_at(self._facts.dataflow, instruction, index)
        return (instruction, index) if value is None else value

    def memory(self, key: object) -> object:
        """What identifies the memory of an array: one for all values that are updated in place."""
        return ("memory", self._facts.aliases.buffer.get(key, key)) if isinstance(key, int) else key

    def _outside_fusion(self, instruction: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
        """Where a fused instruction that forwards an array has it from: an instruction, or an operand of the fusion."""
        while self._context_of.get(instruction.computation) == "fused":
            operands, position, rest = instruction.operands, 0, index
            match instruction.opcode:
                case opcodes.PARAMETER:
                    callers = self._callers.get(instruction.computation, ())
                    number = instruction.computation.parameters.index(instruction)
                    if not callers or number >= len(callers[0].operands):
                        break
                    instruction = callers[0].operands[number]
                    continue
                case opcodes.GET_TUPLE_ELEMENT:
                    rest = (instruction.integer("index") or 0, *index)
                case opcodes.TUPLE:
                    position, rest = (index[0], index[1:]) if index else (len(operands), index)
                case opcode if opcode not in FORWARDING:
                    break
            if position >= len(operands):
                break
            instruction, index = operands[position], rest
        return instruction, index


# --- one operation ---


def _operation(instruction: Instruction, pair: AsyncPair | None) -> LogicalOperation:
    if pair is None:
        return LogicalOperation(instruction, instruction, instruction, instruction.opcode)
    result = pair.dones[0] if pair.dones else instruction
    # A generic start with several instructions inside is an operation of its own.
    if pair.form == "generic" and not _wrappers(pair):
        return LogicalOperation(instruction, instruction, result, instruction.opcode, is_async=True)
    return LogicalOperation(instruction, pair.wrapped or instruction, result, pair.operation, is_async=True)


def _updates_and_dones(pair: AsyncPair) -> Iterator[Instruction]:
    """Updates and dones of a pair, without fusions, which also compute."""
    yield from (update for update in pair.updates if update.opcode != opcodes.FUSION)
    yield from pair.dones


def _wrappers(pair: AsyncPair) -> tuple[Computation, ...]:
    """Computation of a generic async operation, if it contains nothing but the operation."""
    computation = pair.computation if pair.form == "generic" else None
    # One instruction besides the parameters is what XLA prints in the short form.
    if computation is None or len(computation.instructions) != len(computation.parameters) + 1:
        return ()
    return (computation,)


def _fused_collectives(pair: AsyncPair) -> Iterator[Instruction]:
    """Collectives in the fusions of an async fused collective: its start, updates, and done."""
    for member in pair.members if pair.is_fused else ():
        for computation in member.called_computations:
            yield from (each for each in computation.instructions if each.opcode in COLLECTIVES)


def _of_performed(read: ReadFact) -> Callable[[LogicalOperation], FieldValue]:
    return lambda operation: read(operation.performed)


def _result(operation: LogicalOperation) -> Instruction:
    return operation.result


def _op_name(instruction: Instruction) -> str | None:
    return instruction.metadata.op_name or None


def _names_of_fusion(operation: LogicalOperation) -> FieldValue:
    """Names by which a fusion can be found: its name and op_name, and those of its fused instructions."""
    fusion = operation.instruction
    if operation.opcode != opcodes.FUSION:
        return None
    names = [fusion.name, fusion.metadata.op_name]
    for called in fusion.called_computations:
        names += [called.name, *(each.metadata.op_name for each in called.instructions)]
    return tuple(dict.fromkeys(name for name in names if name))


def _bytes(operation: LogicalOperation, cost: Reader[LogicalOperation]) -> FieldValue:
    """Bytes accessed by the synchronous form, as XLA's cost analysis does not count a start and its done together."""
    if not operation.is_async or operation.performed is not operation.instruction:
        return cost.read(operation)
    # The synchronous form reads all operands and writes the result.
    shapes = [operand.shape for operand in operation.instruction.operands]
    return sum(shape.logical_bytes for shape in (*shapes, operation.result.shape))
