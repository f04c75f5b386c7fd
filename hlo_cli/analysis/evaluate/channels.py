"""Sends and receives between simulated devices: what is sent on a channel waits there until it is taken.

Compilers make them of collective permutes, and state the devices as those do; mirrors collective_permute_decomposer.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hlo_cli.analysis.evaluate.collectives import Exchange
from hlo_cli.analysis.semantics.values import Computed, Value, zeros_of
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.operations import CHANNEL_STARTS
from hlo_cli.ir.shape import TupleShape
from hlo_cli.source import HloError

_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PAIR: Final = re.compile(r"\{(\d{1,9}),(\d{1,9})\}")


def transfer_problem(instruction: Instruction) -> str:
    """Why a send or receive cannot be evaluated; empty if it goes between devices that are stated."""
    if instruction.flag("is_host_transfer"):
        return f"{instruction.opcode} exchanges data with the host, which a dump does not have"
    is_stated = instruction.opcode not in CHANNEL_STARTS or instruction.frontend_attributes.get(_ATTRIBUTE) is not None
    return "" if is_stated else f"{instruction.opcode} does not state its source_target_pairs"


def transfer_of(
    instruction: Instruction, computed: Computed, sent: dict[int | None, list[Value]], count: int
) -> Exchange:
    """What a send, a receive, or the end of one does on all devices; `sent` holds what is on its way, by channel."""
    channel = instruction.integer("channel_id")
    if instruction.opcode == "send-done":
        return lambda given: [None] * count
    if instruction.opcode == opcodes.RECV:
        return lambda given: [(None, None, None)] * count
    if instruction.opcode == opcodes.RECV_DONE:
        return lambda given: _received(instruction, channel, sent, count)
    found = _PAIR.findall(instruction.frontend_attributes.get(_ATTRIBUTE) or "")
    pairs = [(int(source), int(target)) for source, target in found]
    for pair in pairs:
        if max(pair) >= count:
            raise HloError(f"{instruction.name} names device {max(pair)}, of {count}", instruction.span)
    shape = instruction.operand_shape(0)

    def send(given: Sequence[Sequence[Value]]) -> list[Value]:
        values = [zeros_of(shape, computed) for _ in range(count)]
        for source, target in pairs:
            values[target] = given[source][0]
        sent[channel] = values
        return [(each[0], None, None) for each in given]

    return send


def _received(
    instruction: Instruction, channel: int | None, sent: dict[int | None, list[Value]], count: int
) -> list[Value]:
    """What each device was sent."""
    if channel not in sent:
        raise HloError(f"{instruction.name} receives from channel {channel}, where nothing was sent", instruction.span)
    values = sent.pop(channel)
    is_tuple = isinstance(instruction.shape, TupleShape)
    return [(value, None) if is_tuple else value for value in values]
