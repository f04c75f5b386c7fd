"""The attributes of instructions in protos, as XLA prints them: which an opcode has, in which order, from which fields.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.sharding import Domain
from hlo_cli.ir.strings import UnreadText
from hlo_cli.ir.values import AttributeValue, value_text
from hlo_cli.ir.words import Precision, PrecisionAlgorithm
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.shardings import replica_groups_of, sharding_of
from hlo_cli.syntax.proto.values import (
    convolution_dimension_numbers_of,
    dot_dimension_numbers_of,
    frontend_attributes_of,
    gather_dimension_numbers_of,
    original_value_of,
    output_operand_alias_of,
    padding_config_of,
    ragged_dot_dimension_numbers_of,
    result_accuracy_of,
    scatter_dimension_numbers_of,
    slice_of,
    sparsity_config_of,
    statistics_of,
    window_of,
)

_ATTRIBUTES: Final = """
all-gather all-gather-start: channel_id replica_groups! constrain_layout dimensions! use_global_device_ids
all-reduce all-reduce-start: channel_id replica_groups! constrain_layout use_global_device_ids
all-to-all: channel_id replica_groups! constrain_layout dimensions
async-start async-update async-done: async_execution_thread
batch-norm-grad batch-norm-inference batch-norm-training: epsilon! feature_index!
broadcast concatenate get-dimension-size map reduce reverse set-dimension-size transpose: dimensions!
call: is_composite
cholesky: cholesky
collective-broadcast: channel_id replica_groups! has_dynamic_root
collective-permute collective-permute-start: channel_id source_target_pairs! slice_sizes
compare: direction! type
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

Printer = Callable[[Message, "Shape | None"], "AttributeValue | None"]
_WORDS: Final = frozenset(("direction", "kind"))
"""Attributes that protos hold as strings and text holds as words."""


def attribute_texts(opcode: str, message: Message, operand: Shape | None) -> Iterator[str]:
    """What an instruction's own attributes say, in XLA's order; some depend on the shape of the first operand.

    >>> message = Message("HloInstructionProto", bytes.fromhex("680372020001"))
    >>> list(attribute_texts("get-tuple-element", message, None)), list(attribute_texts("broadcast", message, None))
    (['index=3'], ['dimensions={0,1}'])
    """
    for name, field, always in _printed(opcode):
        if name in _SEVERAL:
            yield from filter(None, [_SEVERAL[name](message)])
            continue
        special = _SPECIAL.get(name) if not field else None
        value = special(message, operand) if special else _value(message, field or _FIELDS.get(name, name))
        if always or (value is not None if special else value):
            yield f"{name}={value if name in _WORDS else value_text(value if value is not None else ())}"


def common_texts(message: Message) -> Iterator[str]:
    """What any instruction may say between its called computations and its control predecessors."""
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
    return UnreadText(message.word(field))


def _window(message: Message, _: Shape | None) -> AttributeValue | None:
    window = window_of(message.message("window"))
    return window if window.dimensions else None


def _dim_labels(message: Message, _: Shape | None) -> AttributeValue | None:
    if not message.has("convolution_dimension_numbers"):
        return None
    return convolution_dimension_numbers_of(message.message("convolution_dimension_numbers"))


def _group_count(field: str) -> Printer:
    def printed(message: Message, _: Shape | None) -> AttributeValue | None:
        return count if (count := message.integer(field)) > 1 else None

    return printed


def _word_but(field: str, *usual: str) -> Printer:
    """A word that is left out where it is one of the usual ones."""

    def printed(message: Message, _: Shape | None) -> AttributeValue | None:
        word = message.word(field)
        return None if word in usual else UnreadText(word)

    return printed


def _comparison_type(message: Message, operand: Shape | None) -> AttributeValue | None:
    kind = operand.element_type.kind if isinstance(operand, ArrayShape) else ""
    usual = {"signed": "SIGNED", "unsigned": "UNSIGNED", "pred": "UNSIGNED"}.get(kind, "FLOAT")
    word = message.text("comparison_type")
    return None if word in ("", usual) else UnreadText(word)


def _iota_dimension(message: Message, _: Shape | None) -> AttributeValue | None:
    return message.integers("dimensions")[0] if message.integers("dimensions") else None


def _operand_precision(message: Message, _: Shape | None) -> AttributeValue | None:
    words = message.message("precision_config").words("operand_precision")
    return tuple(map(Precision, words)) if any(word != Precision.DEFAULT for word in words) else None


def _algorithm(message: Message, _: Shape | None) -> AttributeValue | None:
    word = message.message("precision_config").word("algorithm")
    return PrecisionAlgorithm(word) if word != PrecisionAlgorithm.UNSET else None


def _operand_layout_constraints(message: Message, _: Shape | None) -> AttributeValue | None:
    if not message.flag("constrain_layout"):
        return None
    return UnreadText("{" + ", ".join(str(shape_of(s)) for s in message.messages("operand_shapes_with_layout")) + "}")


def _aliasing(message: Message, _: Shape | None) -> AttributeValue | None:
    return tuple(map(output_operand_alias_of, message.messages("output_operand_aliasing"))) or None


def _literal(message: Message, _: Shape | None) -> AttributeValue | None:
    if not message.has("literal"):
        return None
    literal = literal_of(message.message("literal"))
    return UnreadText(f"{literal.shape} {literal.to_string()}")


def _pairs(message: Message, _: Shape | None) -> AttributeValue | None:
    return tuple((p.integer("source"), p.integer("target")) for p in message.messages("source_target_pairs"))


def _slice_sizes(message: Message, operand: Shape | None) -> AttributeValue | None:
    """Those of a collective-permute that moves parts: one list a part, each as long as the operand has dimensions."""
    sizes = message.integers("dynamic_slice_sizes")
    first = operand.elements[0] if isinstance(operand, TupleShape) and operand.elements else operand
    rank = first.rank if isinstance(first, ArrayShape) else 0
    return tuple(sizes[at : at + rank] for at in range(0, len(sizes), rank)) if rank and sizes else None


def _options(message: Message) -> str:
    """Those of a triangular solve, as far as they are set."""
    options = message.message("triangular_solve_options")
    texts = [f"{name}=true" for name in ("left_side", "lower", "unit_diagonal") if options.flag(name)]
    if options.word("transpose_a") != "TRANSPOSE_INVALID":
        texts.append(f"transpose_a={options.word('transpose_a')}")
    return ", ".join(texts)


def _domain(message: Message, _: Shape | None) -> AttributeValue | None:
    entry, leave = (message.message(f"domain_{side}_sharding") for side in ("entry", "exit"))
    return Domain(sharding_of(entry), sharding_of(leave))


def _prefetch(message: Message, _: Shape | None) -> AttributeValue | None:
    """The number of the prefetch; 0 is one too, where it is there."""
    name = "cross_program_prefetch_index"
    return message.integer(name) if message.has(name) else None


def _sparsity(message: Message, _: Shape | None) -> AttributeValue | None:
    config = sparsity_config_of(message.message("sparsity_config"))
    return config if config.lhs is not None or config.rhs is not None else None


def _associative(message: Message, _: Shape | None) -> AttributeValue | None:
    word = message.word("is_associative")
    return None if word == "unspecified" else UnreadText(word)


_SEVERAL: Final[dict[str, Callable[[Message], str]]] = {
    "cholesky": lambda message: "lower=true" if message.message("cholesky_options").flag("lower") else "",
    "dot": lambda message: str(dot_dimension_numbers_of(message.message("dot_dimension_numbers"))),
    "gather": lambda message: str(gather_dimension_numbers_of(message.message("gather_dimension_numbers"))),
    "ragged-dot": lambda m: str(ragged_dot_dimension_numbers_of(m.message("ragged_dot_dimension_numbers"))),
    "scatter": lambda message: str(scatter_dimension_numbers_of(message.message("scatter_dimension_numbers"))),
    "triangular-solve": _options,
}
"""Messages that are printed as several attributes."""
_SPECIAL: Final[dict[str, Printer]] = {
    "algorithm": _algorithm,
    "api_version": _word_but("custom_call_api_version", "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL"),
    "batch_group_count": _group_count("batch_group_count"),
    "convolution_kind": _word_but("conv_kind", "unset"),
    "cross_program_prefetch_index": _prefetch,
    "dim_labels": _dim_labels,
    "domain": _domain,
    "feature_group_count": _group_count("feature_group_count"),
    "inferred_dimension": _iota_dimension,
    "iota_dimension": _iota_dimension,
    "is_associative": _associative,
    "literal": _literal,
    "operand_layout_constraints": _operand_layout_constraints,
    "operand_precision": _operand_precision,
    "outfeed_shape": lambda message, _: shape_of(message.message("outfeed_shape")),
    "output_to_operand_aliasing": _aliasing,
    "padding": lambda message, _: padding_config_of(message.message("padding_config")),
    "padding_type": _word_but("padding_type", "PADDING_INVALID"),
    "parameter_replication": lambda message, _: (
        message.message("parameter_replication").flags("replicated_at_leaf_buffers") or None
    ),
    "replica_groups": lambda message, _: replica_groups_of(message),
    "schedule": _word_but("custom_call_schedule", "SCHEDULE_NONE"),
    "slice": lambda message, _: slice_of(message.messages("slice_dimensions")),
    "slice_sizes": _slice_sizes,
    "source_target_pairs": _pairs,
    "sparsity_config": _sparsity,
    "type": _comparison_type,
    "window": _window,
}
"""The attributes that more than one field, or more than its type, decides on."""
