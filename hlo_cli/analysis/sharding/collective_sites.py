"""Every collective in the text of a module, in every form and wrapper, once.

A collective is a single instruction, a start with a done, the body of an async computation, or part of a fusion. A TPU
compiler prints one transfer in each fusion that takes part in it, so those count once; and it writes a reduce-scatter
as a fusion of an all-reduce and the slice of its result that a device keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.analysis.cache import cached_per_module
from hlo_cli.analysis.dataflow.dependencies import users_of
from hlo_cli.analysis.dataflow.executions import Executions, executions_of
from hlo_cli.analysis.dataflow.flat_schedule import is_async_start
from hlo_cli.analysis.shapes.replica_groups import subgroup_size
from hlo_cli.analysis.sharding.device_groups import collective_kind
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import PERMUTES
from hlo_cli.ir.shape import ArrayShape, Shape

_FUSED_START: Final = "AsyncCollectiveStart"
_ASYNC_FUSION: Final = "async_collective_fusion_config"
_IS_SYNC: Final = '"is_sync":true'
_PASSING: Final = frozenset(
    (opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.COPY, opcodes.CONVERT, opcodes.RESHAPE)
)
_UNKNOWN: Final = Executions(0, is_known=False)


@dataclass(frozen=True, slots=True)
class CollectiveSite:
    """A collective in the text.

    `instruction` has its attributes; `caller` is the instruction of the schedule that runs it: itself, or the
    async-start or fusion around it. `kind` is the opcode of what it does. `operand_bytes` are the data bytes of all
    operands on one device; only a bound if `is_bound`, as for a ragged exchange.
    """

    instruction: Instruction
    caller: Instruction
    kind: str
    operand_bytes: int
    runs: Executions
    is_async: bool
    is_bound: bool = False


def collective_sites(module: Module) -> tuple[CollectiveSite, ...]:
    """The collectives that a module runs, in the order of the text.

    >>> from hlo_cli import parse_module
    >>> [site] = collective_sites(parse_module("r = f32[8] all-gather(f32[2] a), dimensions={0}"))
    >>> site.kind, site.operand_bytes, site.is_async, site.runs.known
    ('all-gather', 8, False, 1)
    """
    return cached_per_module(_sites, module)


def _sites(module: Module) -> tuple[CollectiveSite, ...]:
    executions = executions_of(module)
    found = list[CollectiveSite]()
    shared = dict[tuple[str | None, str | None], list[tuple[int, CollectiveSite]]]()
    callers: Mapping[Computation, Instruction] | None = None
    for computation in module.computations:
        runs = executions.get(computation)
        if runs is None and not module.is_part:
            continue
        collectives = [each for each in computation.instructions if collective_kind(each.opcode) is not None]
        if not collectives:
            continue
        callers = _callers(module, executions) if callers is None else callers
        for instruction in collectives:
            site = _site(instruction, callers, runs or _UNKNOWN, module)
            if is_fused_async(instruction) and site.caller is not instruction:
                key = instruction.frontend_attributes.get("chain_id"), instruction.attribute("channel_id")
                shared.setdefault(key, []).append((len(found), site))
            found.append(site)
    dropped = {at for parts in shared.values() for at in _repeats(parts)}
    return tuple(site for at, site in enumerate(found) if at not in dropped)


def malformed_collectives(module: Module) -> int:
    """The number of collectives that the reader has marked as malformed; they are in no other count.

    >>> from hlo_cli import parse_module
    >>> malformed_collectives(parse_module("ENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] all-reduce(p) }"))
    1
    """
    return sum(
        each.opcode.endswith(opcodes.OPAQUE) and collective_kind(each.written_opcode) is not None
        for each in module.instructions
    )


def _repeats(parts: Sequence[tuple[int, CollectiveSite]]) -> Iterator[int]:
    """The places of sites that print the same transfer again: all but those in the fusions that start it."""
    starts = [at for at, site in parts if starts_async_collective(site.caller)] or [parts[0][0]]
    return (at for at, _ in parts if at not in starts)


def is_fused_async(instruction: Instruction) -> bool:
    """Whether an instruction is part of a collective that several fusions of a TPU program carry out."""
    return _ASYNC_FUSION in (instruction.attribute("backend_config") or "")


def starts_async_collective(instruction: Instruction) -> bool:
    """Whether an instruction is the fusion that starts an async collective of a TPU program."""
    if instruction.opcode != opcodes.FUSION or not instruction.called_computations:
        return False
    root = instruction.called_computations[0].root
    if root is None or root.opcode != opcodes.CUSTOM_CALL:
        return False
    return root.string("custom_call_target") == _FUSED_START


def _callers(module: Module, executions: Mapping[Computation, Executions]) -> Mapping[Computation, Instruction]:
    """The first fusion or async start that runs each computation."""
    found = dict[Computation, Instruction]()
    for computation in module.computations if module.is_part else executions:
        for instruction in computation.instructions:
            called = instruction.called_computations
            if called and (instruction.opcode == opcodes.FUSION or is_async_start(instruction.opcode)):
                for each in called:
                    found.setdefault(each, instruction)
    return found


def _site(
    instruction: Instruction, callers: Mapping[Computation, Instruction], runs: Executions, module: Module
) -> CollectiveSite:
    kind = collective_kind(instruction.opcode) or instruction.opcode
    around = list[Instruction]()
    while (caller := callers.get((around[-1] if around else instruction).computation)) is not None:
        around.append(caller)
    starts = [each for each in around if is_async_start(each.opcode)]
    is_async = kind != instruction.opcode or bool(starts) or is_fused_async(instruction)
    is_async = is_async or any(map(starts_async_collective, around))
    if any(_IS_SYNC in (each.attribute("backend_config") or "").replace(" ", "") for each in (instruction, *starts)):
        is_async = False
    if len(around) > len(starts) and kind == opcodes.ALL_REDUCE and _keeps_a_slice(instruction, module):
        kind = opcodes.REDUCE_SCATTER
    return CollectiveSite(
        instruction,
        around[-1] if around else instruction,
        kind,
        _operand_bytes(instruction, kind),
        runs,
        is_async,
        is_bound=kind == opcodes.RAGGED_ALL_TO_ALL,
    )


def _keeps_a_slice(all_reduce: Instruction, module: Module) -> bool:
    """Whether each device of a group keeps another slice of the sum, and nothing else uses it."""
    users = users_of(all_reduce.computation)
    waiting, seen, kept = [all_reduce], {all_reduce}, 0
    while waiting:
        for user in users[waiting.pop()]:
            if user.opcode == opcodes.DYNAMIC_SLICE:
                kept += _elements(user.shape)
            elif user.opcode not in _PASSING:
                return False
            elif user not in seen:
                seen.add(user)
                waiting.append(user)
    devices = subgroup_size(all_reduce, module)
    whole = _elements(all_reduce.shape)
    return kept > 0 and (kept * devices == whole if devices is not None else kept < whole)


def _elements(shape: Shape) -> int:
    return sum(leaf.elements for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))


def _operand_bytes(instruction: Instruction, kind: str) -> int:
    """The data bytes of the operands that are sent, without offsets, sizes, and the array to write into."""
    operands = [instruction.operand_shape(position) for position in range(len(instruction.operands))]
    if kind == opcodes.RAGGED_ALL_TO_ALL:
        operands = operands[:1]
    elif kind in PERMUTES and len(operands) >= 4:
        return _sliced_bytes(instruction, operands[0])
    return sum(_data_bytes(shape) for shape in operands)


def _sliced_bytes(instruction: Instruction, given: Shape) -> int:
    """The bytes of the slices that an in-place permute sends."""
    arrays = [leaf for _, leaf in given.leaves if isinstance(leaf, ArrayShape)]
    found = 0
    for array, sizes in zip(arrays, instruction.integer_lists("slice_sizes"), strict=False):
        elements = 1
        for size in sizes:
            elements *= size
        found += elements * array.element_bits // 8
    return found or _data_bytes(given)


def _data_bytes(shape: Shape) -> int:
    return sum(leaf.logical_bytes for _, leaf in shape.leaves if isinstance(leaf, ArrayShape))
