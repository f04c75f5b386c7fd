"""What cannot be evaluated, told before anything runs: instructions of unknown meaning, and shapes that break rules."""

from __future__ import annotations

from collections.abc import Hashable

from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.evaluate.channels import transfer_problem
from hlo_cli.analysis.evaluate.fused_collectives import fused_problem, inputs_of, is_fused_part
from hlo_cli.analysis.evaluate.host import INFEED, Host
from hlo_cli.analysis.semantics.custom_calls import rule_of_target, target_of_call
from hlo_cli.analysis.semantics.rules import has_rule
from hlo_cli.analysis.shapes.inference import shape_difference, shape_difference_key
from hlo_cli.analysis.sharding.device_groups import collective_kind
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.operations import CHANNEL_OPCODES, DEVICE_IDS, HOST_FEEDS
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError


def refusals(
    module: Module, *, has_devices: bool = False, host: Host | None = None
) -> tuple[tuple[Instruction, str], ...]:
    """The instructions that cannot be evaluated, in the order of the text, each with the reason.

    `host` may give custom calls, infeeds, and outfeeds a meaning.

    >>> from hlo_cli import parse_module
    >>> [(instruction, reason)] = refusals(parse_module('r = f32[8] custom-call(f32[8] a), custom_call_target="my_op"'))
    >>> reason
    'the meaning of the custom call target my_op is unknown'
    """
    reached = executions_of(module)
    valid: set[Hashable] = set()
    return tuple(
        (instruction, reason)
        for computation in module.computations
        if computation in reached
        for instruction in computation.instructions
        if (reason := _reason(instruction, has_devices, host) or _misfit(instruction, module, valid))
    )


def unneeded(module: Module) -> frozenset[Instruction]:
    """The instructions whose values no result depends on, and that exchange nothing with a host or other devices.

    Compilers leave them behind between passes, also ones that break rules.

    >>> from hlo_cli import parse_module
    >>> module = parse_module("ENTRY e { p = f32[2] parameter(0)  d = f32[2] negate(p)  ROOT r = f32[2] copy(p) }")
    >>> unneeded(module)
    frozenset({<negate d>})
    """
    needed: set[Instruction] = set()
    seen, computations = {module.entry}, [module.entry]
    while computations:
        computation = computations.pop()
        pending = [each for each in computation.instructions if _has_effect(each) or each.parameter_number is not None]
        pending += [] if computation.root is None else [computation.root]
        needed.update(pending)
        while pending:
            each = pending.pop()
            new = set(inputs_of(each)) - needed
            needed |= new
            pending += new
            called = set(each.called_computations) - seen
            seen |= called
            computations += called
    return frozenset(module.instructions) - needed


def _has_effect(instruction: Instruction) -> bool:
    return instruction.opcode in HOST_FEEDS or instruction.opcode in CHANNEL_OPCODES


def _reason(instruction: Instruction, has_devices: bool, host: Host | None) -> str:
    opcode = instruction.opcode
    if host is not None and host.has_meaning(instruction):
        return ""
    if opcode == opcodes.CONSTANT:
        literal = instruction.literal
        return "the dump omits the values of the constant" if literal is None or literal.is_elided else ""
    if opcode == opcodes.CUSTOM_CALL and has_devices and is_fused_part(instruction):
        return fused_problem(instruction)
    if opcode == opcodes.CUSTOM_CALL:
        known = rule_of_target(instruction) is not None
        return "" if known else f"the meaning of the custom call target {target_of_call(instruction)} is unknown"
    if opcode in HOST_FEEDS:
        return f"{opcode} exchanges data with the host, which a dump does not have"
    if opcode in CHANNEL_OPCODES and (problem := transfer_problem(instruction)):
        return problem
    if (
        opcode in DEVICE_IDS
        or opcode in CHANNEL_OPCODES
        or collective_kind(opcode.removesuffix("-done")) is not None
        or collective_kind(opcode) is not None
    ):
        return "" if has_devices else f"{opcode} requires several devices; pass the whole module"
    return "" if opcode == opcodes.PARAMETER or has_rule(opcode) else f"{opcode} is not supported"


def hint_of(instruction: Instruction) -> str | None:
    """The option of `hlo run` that gives an instruction a meaning."""
    if instruction.opcode == opcodes.CUSTOM_CALL:
        return f"use --stub {target_of_call(instruction)}=FILE.py to define it in Python"
    return "use --feed FILE to give its data" if instruction.opcode == INFEED else None


def _misfit(instruction: Instruction, module: Module, valid: set[Hashable]) -> str:
    """What is wrong with the shapes of an instruction; `valid` are keys of those that are known to be right."""
    if any(
        isinstance(leaf, ArrayShape) and min(leaf.dimensions, default=0) < 0 for _, leaf in instruction.shape.leaves
    ):
        return f"the sizes of {instruction.shape} are unknown"
    if (key := shape_difference_key(instruction)) in valid:
        return ""
    try:
        found = shape_difference(instruction, module, allow_mixed_precision=True)
    except HloError as error:
        return error.diagnostic.message
    if found is None and key is not None:
        valid.add(key)
    return found or ""
