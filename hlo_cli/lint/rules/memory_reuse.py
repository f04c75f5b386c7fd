"""HLO2xx: memory that could be used again, and values that are fetched again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.cost.cost_analysis import costs_among
from hlo_cli.analysis.dataflow.uses import producer_of, uses_of
from hlo_cli.analysis.memory.memory_limits import allocated_bytes
from hlo_cli.analysis.memory.memory_model import LiveValue, MemoryAnalysis
from hlo_cli.analysis.schedule.transfers import Transfer
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.memory_space import MemorySpace, TpuMemorySpace, space_name
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.lint.context import LintContext
from hlo_cli.lint.dataflow import derives_from
from hlo_cli.lint.loop_invariants import carry_index, passes_through
from hlo_cli.lint.registry import rule
from hlo_cli.lint.spans import shape_span
from hlo_cli.report.finding import Finding
from hlo_cli.report.numbers import format_bytes

_CARRYING: Final = frozenset((opcodes.CALL, opcodes.CONDITIONAL, opcodes.CUSTOM_CALL, opcodes.TUPLE, opcodes.WHILE))
"""Opcodes that pass a value on under other names, so that its last use is hard to find."""
_MOVING: Final = (opcodes.COPY, opcodes.SLICE)
_JOINING: Final = "ConcatBitcast"
_FAST: Final = frozenset(space for space in TpuMemorySpace if space.is_prefetched)


@rule("HLO203", "argument could be donated", severity="warning")
def missed_donation(context: LintContext) -> Iterator[Finding]:
    """A result is computed from an argument that nothing reads later, but is written elsewhere.

    Why: it could take the place of the argument, whose shape and layout it has, as new weights can that of the old. As
    it is, both are held until the end. Told of arguments of donation_bytes and more, if giving all of them away saves
    donation_fraction of what the module takes in main memory: less does not decide whether it fits.

    Example:
        HloModule step, is_scheduled=true
        ENTRY main { w = f32[512,512]{1,0} parameter(0)  ROOT n = f32[512,512]{1,0} negate(w) }

    Mend: give the argument away; in jax, jit(step, donate_argnums=0). Where the caller needs the old value again, as
    the weights of a model that only predicts, leave it as it is, and write the finding to a baseline.

    Reference: https://openxla.org/xla/aliasing; hlo memspace DUMP NAME
    """
    if not context.module.is_scheduled or not _kept(context):
        return
    memory = context.analyses.memory
    donations = tuple(_donations(context, memory))
    if sum(saved for saved, _ in donations) < context.settings.donation_fraction * _taken(memory):
        return
    yield from (finding for _, finding in donations)


@rule("HLO207", "value spilled and fetched back", severity="note", is_default=False)
def spilled(context: LintContext) -> Iterator[Finding]:
    """A value is moved out of the fast memory to make room, and back into it later (prefetch_bytes and more).

    Why: it crosses the way to main memory twice. The compiler does so where more is alive than fits, as with what a
    backward pass needs again, so this rule is off.

    Example:
        a = f32[512,1024]{1,0:T(8,128)} copy(x)
        b = f32[512,1024]{1,0:T(8,128)S(1)} copy(a)

    Mend: make what is alive at the same time smaller, most of all padding; let what uses the value stand together.

    Reference: xla/service/memory_space_assignment; hlo memspace DUMP --traffic
    """
    transfers = context.analyses.transfers if context.target == "tpu" else ()
    moved = {t.instruction: t for t in transfers if t.from_space in _FAST and not t.to_space}
    told = set[Instruction]()
    for transfer in transfers:
        out = moved.get(transfer.source)
        if out is None or not transfer.is_prefetch or out.instruction in told or not _is_worth(context, out):
            continue
        told.add(out.instruction)
        yield context.finding(
            f"{out.instruction.name} moves {format_bytes(out.shape.padded_bytes)} "
            f"out of {space_name(out.from_space, 'tpu')}, and {transfer.instruction.name} fetches it back",
            out.instruction,
        )


@rule("HLO208", "value fetched several times", severity="note")
def fetched_again(context: LintContext) -> Iterator[Finding]:
    """The same value is fetched into the fast memory more than once (prefetch_bytes and more in all).

    Why: each time crosses the main memory. The compiler does so where the value would lie there too long in between.

    Example:
        a = f32[512,1024]{1,0:T(8,128)S(1)} copy(x)
        b = f32[512,1024]{1,0:T(8,128)S(1)} copy(x)

    Mend: let what uses the value stand together, or make what is alive in between smaller.

    Reference: xla/service/memory_space_assignment; hlo memspace DUMP --traffic
    """
    first: dict[tuple[Instruction, ArrayShape], Transfer] = {}
    for transfer in context.analyses.transfers if context.target == "tpu" else ():
        if not transfer.is_prefetch or transfer.instruction.opcode not in (opcodes.COPY, opcodes.COPY_START):
            continue
        earlier = first.setdefault((transfer.source, transfer.shape), transfer)
        if earlier is not transfer and _is_worth(context, transfer):
            yield context.finding(
                f"{transfer.instruction.name} fetches {transfer.source.name} again, "
                f"{format_bytes(transfer.shape.padded_bytes)}, which {earlier.instruction.name} has fetched already",
                transfer.instruction,
            )


@rule("HLO209", "read from main memory in every round", severity="note", is_default=False)
def never_fetched(context: LintContext) -> Iterator[Finding]:
    """A loop reads an array that never changes from the main memory each time (prefetch_bytes in all rounds).

    Why: it is small enough to stay in the fast memory, an eighth of that or less, and would be read once. Whether there
    is room the compiler knows better, so this rule is off.

    Example:
        w = f32[256,256]{1,0:T(8,128)} get-tuple-element(carried), index=1

    Mend: free fast memory inside the loop; xla_tpu_scoped_vmem_limit_kib says how much kernels may take of it.

    Reference: xla/service/memory_space_assignment; hlo memspace DUMP --space 1
    """
    if context.target != "tpu":
        return
    for loop in context.of(opcodes.WHILE):
        body = loop.called_computations[0] if loop.called_computations else None
        rounds = context.analyses.times.get(body) if body is not None else None
        if body is None or rounds is None or rounds < 2:
            continue
        handed = passes_through(body)
        for element in body.instructions:
            shape = element.shape
            if carry_index(element) not in handed or not isinstance(shape, ArrayShape) or shape.memory_space:
                continue
            if shape.padded_bytes <= _VMEM_SHARE:
                read = _read_bytes(element, uses_of(element, context.users))
                if read * rounds >= context.settings.prefetch_bytes:
                    yield context.finding(
                        f"{loop.name} reads {element.name} in each of {rounds:,} rounds, "
                        f"{format_bytes(read * rounds)} in all",
                        element,
                    )


_VMEM_SHARE: Final = 16 * 1024**2


def _kept(context: LintContext) -> bool:
    """Whether a large enough argument is not donated; faster to check than the memory analysis."""
    module = context.module
    given = {alias.parameter_number for alias in module.input_output_alias}
    given |= {donor.parameter_number for donor in module.buffer_donor}
    parameters = (each for number, each in enumerate(module.entry.parameters) if number not in given)
    return any(each.shape.padded_bytes >= context.settings.donation_bytes for each in parameters)


def _donations(context: LintContext, memory: MemoryAnalysis) -> Iterator[tuple[int, Finding]]:
    """The arguments that could be donated, with their bytes."""
    written = _results(memory)
    for allocation in memory.allocations:
        given = next((value for value in allocation.values if value.instruction.opcode == opcodes.PARAMETER), None)
        if allocation.kind != "argument" or allocation.is_donated or given is None or given.index:
            continue
        if allocation.size < context.settings.donation_bytes or given.instruction not in context.users:
            continue
        last = _last_use(context, memory, given.instruction)
        fitting = (each for each in written if each.shape == given.shape and 0 <= last <= each.start)
        result = next((each for each in fitting if _updates(each, given.instruction)), None)
        if result is not None:
            written.remove(result)
            made, taken = _behind_copies(result.instruction), format_bytes(allocation.size)
            kernel = result.instruction if made is given.instruction else made
            yield (
                allocation.size,
                context.finding(
                    f"{given} could be donated: {kernel.name} is the last to read it, and writes {taken} like it",
                    given.instruction,
                    shape_span(context.module, given.instruction),
                    hint=f"alias the result that {result} is with parameter {given.instruction.parameter_number}",
                ),
            )


def _taken(memory: MemoryAnalysis) -> int:
    """The bytes that the module needs in the main memory."""
    main = memory.space(0)
    return (allocated_bytes(memory, main) or main.peak_bytes) if main is not None else 0


def _results(memory: MemoryAnalysis) -> list[LiveValue]:
    """First values in output allocations that no argument aliases."""
    found: list[LiveValue] = []
    for allocation in memory.allocations:
        if allocation.kind == "output":
            held = [value for value in allocation.values if value.kind == "output"]
            first = min(held, key=lambda value: value.start, default=None)
            if first is not None and isinstance(first.shape, ArrayShape):
                found.append(first)
    return found


def _last_use(context: LintContext, memory: MemoryAnalysis, given: Instruction) -> int:
    """The step of the last use; after the last step if the value is passed on under other names, -1 if it is unused."""
    uses = uses_of(given, context.users)
    if any(use.opcode in _CARRYING for use in uses):
        return len(memory.sequence) + 1
    return max((memory.positions.get(use, len(memory.sequence)) for use in uses), default=-1)


def _updates(result: LiveValue, argument: Instruction) -> bool:
    """Whether the kernel that makes a result reads an argument, or the result begins as a copy of it."""
    kernel = _behind_copies(result.instruction)
    return kernel is argument or any(_behind_copies(operand) is argument for operand in kernel.operands)


def _behind_copies(instruction: Instruction) -> Instruction:
    """The producer of a value, before any moves."""
    made = producer_of(instruction)
    while (moved := _moved(made)) is not None:
        made = producer_of(moved)
    return made


def _moved(made: Instruction) -> Instruction | None:
    """The value that an instruction only moves: as a whole, or in pieces, as TPU compilers fetch large values."""
    match made.opcode:
        case opcodes.COPY | opcodes.COPY_START if made.operands:
            return made.operands[0]
        case opcodes.ASYNC_START if made.operands and made.called_computations:
            root = made.called_computations[0].root
            return made.operands[0] if root is not None and root.opcode in _MOVING else None
        case opcodes.CUSTOM_CALL if made.string("custom_call_target") == _JOINING:
            sources = {_behind_copies(piece) for piece in made.operands}
            return sources.pop() if len(sources) == 1 else None
    return None


def _is_worth(context: LintContext, transfer: Transfer) -> bool:
    times = context.analyses.times.get(transfer.instruction.computation) or 1
    if transfer.from_space == MemorySpace.HOST:
        return False
    return transfer.shape.padded_bytes * times >= context.settings.prefetch_bytes


def _read_bytes(element: Instruction, users: Sequence[Instruction]) -> int:
    """The bytes of a value that its users read, each user counted once."""
    costs = costs_among(user for user in users if user.opcode not in _CARRYING)
    places = ((user, n) for user in costs for n, operand in enumerate(user.operands) if derives_from(operand, element))
    return sum(round(costs[user].operand_bytes(number)) for user, number in places)
