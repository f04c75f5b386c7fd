"""HLO5xx: arrays that change their sharding twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hlo_cli.analysis.schedule.async_overlap import synchronous_pair
from hlo_cli.analysis.sharding.meshes import Devices, collective_kind, device_groups, device_pairs, devices_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.operations import ELEMENTWISE, MOVES
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.costs import Waste
from hlo_cli.lint.registry import rule
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes
from hlo_cli.source import HloError

_PARTS: Final = frozenset((opcodes.SLICE, opcodes.CONCATENATE, opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE))
_THROUGH: Final = MOVES | ELEMENTWISE | _PARTS
_KINDS: Final = (opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE)
_MOST_STEPS: Final = 100


@rule("HLO509", "resharding back and forth", severity="warning")
def resharding_back_and_forth(context: LintContext) -> Iterator[Finding]:
    """Between two all-to-alls, or a collective-permute and its inverse, there are only elementwise operations.

    Reported for transfers of at least min_transfer_bytes over the same devices, if the operations have no other array
    as operand.

    Why: Elementwise operations have the same result in every sharding. Without the sharding in between, no
    transfer is necessary if the second one returns to the first sharding, and otherwise one is enough.

    Example:
        a = f32[1024,64] all-to-all(x), dimensions={0}, replica_groups={{0,1,2,3}}
        t = f32[1024,64] tanh(a)
        b = f32[1024,64] all-to-all(t), dimensions={0}, replica_groups={{0,1,2,3}}

    Fix: Use one sharding for these operations: in JAX, remove the sharding constraint in between, or set it to the
    sharding before or after.

    Reference: xla/service/spmd/spmd_partitioner.cc; `hlo shard DUMP --comms`
    """
    devices = devices_of(context.module)
    for last in context.of(*_KINDS, opcodes.COLLECTIVE_PERMUTE_START):
        kind = collective_kind(last.opcode) or last.opcode
        moved = sum(last.operand_shape(at).padded_bytes for at in range(len(last.operands)))
        if moved < context.settings.min_transfer_bytes:
            continue
        first = _only_source(last, kind)
        if first is None or not _is_return(first, last, devices):
            continue
        yield context.finding(
            f"{kind} of {context.user_name(last)} reshards {format_bytes(moved)} again after elementwise "
            f"operations on the result of another {kind}",
            last,
            waste=Waste(2 * moved, "links", pair=synchronous_pair(last)),
        )


def _only_source(last: Instruction, kind: str) -> Instruction | None:
    """The collective of a kind from whose result alone an operand is computed elementwise; None for a direct use."""
    waiting, seen, found, is_direct = list(last.operands), set(last.operands), None, True
    for _ in range(_MOST_STEPS):
        if not waiting:
            return None if is_direct else found
        value = waiting.pop()
        if value.opcode == opcodes.COLLECTIVE_PERMUTE_DONE and value.operands:
            value = value.operands[0]
        if collective_kind(value.opcode) == kind:
            if found not in (None, value):
                return None
            found = value
            continue
        before = _operands_through(value)
        if before is None:
            return None
        is_direct = is_direct and value.opcode in MOVES | _PARTS
        waiting += [each for each in before if each not in seen and not _is_scalar(each)]
        seen.update(before)
    return None


def _operands_through(value: Instruction) -> Iterable[Instruction] | None:
    """The operands that an elementwise value is made of, through a fusion; None for a value that is not elementwise."""
    if value.opcode in _THROUGH:
        return value.operands
    if value.opcode != opcodes.FUSION or not value.called_computations:
        return None
    numbers = _parameters_through(value.called_computations[0])
    return None if numbers is None else [value.operands[n] for n in sorted(numbers) if n < len(value.operands)]


def _parameters_through(body: Computation) -> set[int] | None:
    """The numbers of the parameters that an elementwise body reads, without scalars; None for other bodies."""
    found = set[int]()
    numbers = {parameter: number for number, parameter in enumerate(body.parameters)}
    for each in body.instructions:
        if (number := numbers.get(each)) is not None:
            if not _is_scalar(each):
                found.add(number)
        elif each.opcode not in _THROUGH and not _is_scalar(each):
            return None
    return found


def _is_scalar(value: Instruction) -> bool:
    """Whether a value is a single element, or made of one, which is the same in every sharding."""
    if value.opcode == opcodes.BROADCAST:
        return _is_scalar(value.operands[0]) if value.operands else False
    return isinstance(value.shape, ArrayShape) and value.shape.elements == 1


def _is_return(first: Instruction, last: Instruction, devices: Devices) -> bool:
    """Whether two collectives are over the same groups; of permutes, whether each device gets back what it has sent."""
    try:
        if collective_kind(last.opcode) == opcodes.COLLECTIVE_PERMUTE:
            there, back = device_pairs(first, devices), device_pairs(last, devices)
            return bool(there) and {(target, source) for source, target in there} == set(back)
        return _groups(first, devices) == _groups(last, devices)
    except HloError:  # reported by other rules
        return False


def _groups(collective: Instruction, devices: Devices) -> frozenset[frozenset[int]]:
    return frozenset(map(frozenset, device_groups(collective, devices)))
