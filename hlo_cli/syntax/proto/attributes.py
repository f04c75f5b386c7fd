"""The attributes of instructions in protos, as XLA prints them: which an opcode has, in which order, from which fields.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from hlo_cli.ir.attributes.values import AttributeValue, value_text
from hlo_cli.ir.shape import Shape
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.multi_field_attributes import SEVERAL, SPECIAL
from hlo_cli.syntax.proto.shardings import sharding_of
from hlo_cli.syntax.proto.values import (
    frontend_attributes_of,
    original_value_of,
    result_accuracy_of,
    statistics_of,
)

_ATTRIBUTES: Final = """
all-gather all-gather-start: channel_id replica_groups! constrain_layout dimensions! use_global_device_ids
all-reduce all-reduce-start: channel_id replica_groups! constrain_layout use_global_device_ids
all-to-all: channel_id replica_groups! constrain_layout dimensions
async-start async-update async-done: async_execution_thread output_to_operand_aliasing
batch-norm-grad batch-norm-inference batch-norm-training: epsilon! feature_index!
broadcast concatenate get-dimension-size map reduce reverse set-dimension-size transpose: dimensions!
cholesky: cholesky
collective-broadcast: channel_id replica_groups! has_dynamic_root
collective-permute collective-permute-start: channel_id source_target_pairs! slice_sizes
compare: direction! order type
convolution: window dim_labels feature_group_count batch_group_count convolution_kind operand_precision algorithm
  sparsity_config
copy-start: cross_program_prefetch_index
custom-call: window dim_labels feature_group_count batch_group_count operand_precision algorithm padding_type
  custom_call_target! operand_layout_constraints custom_call_has_side_effect literal output_to_operand_aliasing schedule
  api_version
domain: domain
dot scaled-dot: dot operand_precision algorithm
dynamic-slice: dynamic_slice_sizes!
fft: fft_type! fft_length!
fusion: kind! output_to_operand_aliasing
gather: gather slice_sizes=gather_slice_sizes! indices_are_sorted
get-tuple-element: index!
infeed: infeed_config
iota: iota_dimension
outfeed: outfeed_shape! outfeed_config
pad: padding
parameter: parameter_replication
ragged-all-to-all: channel_id replica_groups!
ragged-dot: ragged-dot operand_precision
recv recv-done send send-done: channel_id is_host_transfer
reduce-precision: exponent_bits! mantissa_bits!
reduce-scatter: channel_id replica_groups! constrain_layout use_global_device_ids dimensions!
reduce-window select-and-scatter: window
reshape: inferred_dimension
rng: distribution!
rng-bit-generator: algorithm=rng_algorithm!
rng-get-and-update-state: delta!
scan: dimensions! num_carries! is_reverse is_associative
scatter: scatter indices_are_sorted unique_indices
slice: slice
sort: dimensions! is_stable
topk: k! largest is_stable
triangular-solve: triangular-solve
"""
"""Opcodes and what they print: names of attributes, `!` where zero and empty are printed too, `=` and the field."""

_FIELDS: Final = {
    "direction": "comparison_direction",
    "index": "tuple_index",
    "kind": "fusion_kind",
}
"""The fields of attributes that have another name."""

_WORDS: Final = frozenset(("direction", "kind"))
"""Attributes that protos hold as strings and text holds as words."""


def attribute_texts(opcode: str, message: Message, operand: Shape | None) -> Iterator[str]:
    """What an instruction's own attributes say, in XLA's order; some depend on the shape of the first operand.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> list(attribute_texts("get-tuple-element", message, None)), list(attribute_texts("broadcast", message, None))
    (['index=3'], ['dimensions={0,1}'])
    """
    for name, field, always in _printed(opcode):
        if name in SEVERAL:
            yield from filter(None, [SEVERAL[name](message)])
            continue
        special = SPECIAL.get(name) if not field else None
        value = special(message, operand) if special else _value(message, field or _FIELDS.get(name, name))
        if always or (value is not None if special else value):
            yield f"{name}={value if name in _WORDS else value_text(value if value is not None else ())}"


def common_texts(message: Message) -> Iterator[str]:
    """What any instruction may say between its called computations and its control predecessors."""
    if message.flag("is_composite"):
        yield "is_composite=true"
    if message.has("sharding"):
        yield f"sharding={sharding_of(message.message('sharding'))}"
    if (attributes := frontend_attributes_of(message.message("frontend_attributes"))).entries:
        yield f"frontend_attributes={attributes}"


def last_texts(message: Message) -> Iterator[str]:
    """What any instruction may say between its control predecessors and its metadata."""
    if (statistics := statistics_of(message.message("statistics_viz"))).statistics:
        yield f"statistics={statistics}"
    if message.data("result_accuracy"):
        yield f"result_accuracy={result_accuracy_of(message.message('result_accuracy'))}"
    if message.has("original_value"):
        yield f"origin={original_value_of(message.message('original_value'))}"


@cache
def _printed(opcode: str) -> tuple[tuple[str, str, bool], ...]:
    for line in _ATTRIBUTES.replace("\n  ", " ").strip().splitlines():
        opcodes, _, printed = line.partition(": ")
        if opcode in opcodes.split():
            return tuple(_entry(each) for each in printed.split())
    return ()


def _entry(text: str) -> tuple[str, str, bool]:
    name, _, field = text.removesuffix("!").partition("=")
    return name, field, text.endswith("!")


def _value(message: Message, field: str) -> AttributeValue:
    """A value whose field says by its type how it is printed."""
    kind = fields_of("HloInstructionProto")[field]
    if kind.repeated:
        return message.integers(field)
    match kind.type:
        case "int":
            return message.integer(field)
        case "bool":
            return message.flag(field)
        case "float":
            return message.decimal(field)
        case "string" | "bytes":
            return message.text(field)
    return UnparsedText(message.word(field))
