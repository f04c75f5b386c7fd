"""Attributes of instructions in protos that more than one field decides on, or more than its type.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.sharding import Domain
from hlo_cli.ir.attributes.values import AttributeValue
from hlo_cli.ir.shape import ArrayShape, Shape, TupleShape
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.ir.words import Precision, PrecisionAlgorithm
from hlo_cli.syntax.proto.literals import literal_of
from hlo_cli.syntax.proto.message import Message
from hlo_cli.syntax.proto.shapes import shape_of
from hlo_cli.syntax.proto.shardings import replica_groups_of, sharding_of
from hlo_cli.syntax.proto.values import (
    convolution_dimension_numbers_of,
    dot_dimension_numbers_of,
    gather_dimension_numbers_of,
    output_operand_alias_of,
    padding_config_of,
    ragged_dot_dimension_numbers_of,
    scatter_dimension_numbers_of,
    slice_of,
    sparsity_config_of,
    window_of,
)

Printer = Callable[[Message, Shape | None], "AttributeValue | None"]
"""Makes a value of an instruction and the shape of its first operand; None where there is nothing to print."""


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
        return None if word in usual else UnparsedText(word)

    return printed


def _comparison_type(message: Message, operand: Shape | None) -> AttributeValue | None:
    kind = operand.element_type.kind if isinstance(operand, ArrayShape) else ""
    usual = {"signed": "SIGNED", "unsigned": "UNSIGNED", "pred": "UNSIGNED"}.get(kind, "FLOAT")
    word = message.text("comparison_type")
    return None if word in ("", usual) else UnparsedText(word)


def _comparison_order(message: Message, operand: Shape | None) -> AttributeValue | None:
    is_float = isinstance(operand, ArrayShape) and operand.element_type.kind in ("float", "complex")
    word = message.text("comparison_order")
    return None if word in ("", "PARTIAL" if is_float else "TOTAL") else UnparsedText(word)


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
    return UnparsedText("{" + ", ".join(str(shape_of(s)) for s in message.messages("operand_shapes_with_layout")) + "}")


def _aliasing(message: Message, _: Shape | None) -> AttributeValue | None:
    return tuple(map(output_operand_alias_of, message.messages("output_operand_aliasing"))) or None


def _literal(message: Message, _: Shape | None) -> AttributeValue | None:
    return literal_of(message.message("literal")) if message.has("literal") else None


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
    """Both sides; text calls entry what protos call exit."""
    entry, leave = (sharding_of(message.message(f"domain_{side}_sharding")) for side in ("exit", "entry"))
    return Domain(entry, leave)


def _prefetch(message: Message, _: Shape | None) -> AttributeValue | None:
    """The number of the prefetch; 0 is one too, where it is there."""
    name = "cross_program_prefetch_index"
    return message.integer(name) if message.has(name) else None


def _sparsity(message: Message, _: Shape | None) -> AttributeValue | None:
    config = sparsity_config_of(message.message("sparsity_config"))
    return config if config.lhs is not None or config.rhs is not None else None


def _associative(message: Message, _: Shape | None) -> AttributeValue | None:
    word = message.word("is_associative")
    return None if word == "unspecified" else UnparsedText(word)


SEVERAL: Final[dict[str, Callable[[Message], str]]] = {
    opcodes.CHOLESKY: lambda message: "lower=true" if message.message("cholesky_options").flag("lower") else "",
    opcodes.DOT: lambda message: str(dot_dimension_numbers_of(message.message("dot_dimension_numbers"))),
    opcodes.GATHER: lambda message: str(gather_dimension_numbers_of(message.message("gather_dimension_numbers"))),
    opcodes.RAGGED_DOT: lambda m: str(ragged_dot_dimension_numbers_of(m.message("ragged_dot_dimension_numbers"))),
    opcodes.SCATTER: lambda message: str(scatter_dimension_numbers_of(message.message("scatter_dimension_numbers"))),
    opcodes.TRIANGULAR_SOLVE: _options,
}
"""Messages that are printed as several attributes."""
SPECIAL: Final[dict[str, Printer]] = {
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
    "order": _comparison_order,
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
