"""The attributes of instructions, added to drafts of `HloInstructionProto`.

Mirrors `ToProto` of the classes in xla/hlo/ir/hlo_instructions.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hlo_cli.ir import opcodes
from hlo_cli.ir.attributes.accuracy import ResultAccuracy, SparsityConfig
from hlo_cli.ir.attributes.aliasing import OutputOperandAlias
from hlo_cli.ir.attributes.annotations import BackendConfig, FrontendAttributes, StatisticsViz
from hlo_cli.ir.attributes.devices import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList
from hlo_cli.ir.attributes.dimension_numbers import (
    ConvolutionDimensionNumbers,
    dot_dimension_numbers,
    gather_dimension_numbers,
    ragged_dot_dimension_numbers,
    scatter_dimension_numbers,
)
from hlo_cli.ir.attributes.named_sharding import NamedSharding
from hlo_cli.ir.attributes.origin import OriginalValue
from hlo_cli.ir.attributes.sharding import Domain, Sharding, TupleSharding
from hlo_cli.ir.attributes.values import AttributeValue
from hlo_cli.ir.attributes.window import PaddingConfig, Slice, Window
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.literal import ArrayLiteral, TupleLiteral
from hlo_cli.ir.operations import CALLING_ATTRIBUTES
from hlo_cli.ir.shape import Shape
from hlo_cli.ir.strings import UnparsedText
from hlo_cli.ir.words import CustomCallApiVersion
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.build_shardings import add_replica_groups, sharding_draft
from hlo_cli.syntax.proto.build_values import (
    fieldwise_draft,
    frontend_attributes_draft,
    original_value_draft,
    output_operand_alias_draft,
    padding_config_draft,
    ragged_dot_dimension_numbers_draft,
    result_accuracy_draft,
    slice_drafts,
    sparsity_config_draft,
    statistics_draft,
    window_draft,
)
from hlo_cli.syntax.proto.builder import MessageBuilder
from hlo_cli.syntax.proto.field_scan import KIND
from hlo_cli.syntax.proto.fields import fields_of
from hlo_cli.syntax.proto.literals import literal_draft
from hlo_cli.syntax.proto.shapes import shape_draft

_FIELDS: Final = {
    "api_version": "custom_call_api_version",
    "convolution_kind": "conv_kind",
    "dim_labels": "convolution_dimension_numbers",
    "direction": "comparison_direction",
    "index": "tuple_index",
    "inferred_dimension": "dimensions",
    "iota_dimension": "dimensions",
    "kind": "fusion_kind",
    "operand_layout_constraints": "operand_shapes_with_layout",
    "order": "comparison_order",
    "origin": "original_value",
    "output_to_operand_aliasing": "output_operand_aliasing",
    "padding": "padding_config",
    "schedule": "custom_call_schedule",
    "slice": "slice_dimensions",
    "statistics": "statistics_viz",
    "type": "comparison_type",
}
"""The fields of attributes that have another name."""
_ELSEWHERE: Final = frozenset((*CALLING_ATTRIBUTES, "metadata", "control-predecessors", "mode"))
"""Attributes that say what the IR knows already, and one that XLA reads and forgets."""
_GROUPED: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        (opcodes.DOT, opcodes.SCALED_DOT, opcodes.RAGGED_DOT),
        frozenset(
            """lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims lhs_ragged_dims
            rhs_group_dims""".split()
        ),
    ),
    opcodes.GATHER: frozenset(
        """offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims
        index_vector_dim""".split()
    ),
    opcodes.SCATTER: frozenset(
        """update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims
        scatter_indices_batching_dims index_vector_dim""".split()
    ),
    opcodes.TRIANGULAR_SOLVE: frozenset("left_side lower unit_diagonal transpose_a".split()),
    opcodes.CHOLESKY: frozenset(("lower",)),
}
"""Attributes that are written together, as one message."""


def add_attributes(draft: MessageBuilder, instruction: Instruction) -> None:
    """Add what an instruction's attributes say; HloError if no proto can hold that, or if it is not known."""
    _add_groups(draft, instruction)
    for attribute in instruction.attributes:
        if attribute.name not in _ELSEWHERE and attribute.name not in _GROUPED.get(instruction.written_opcode, ()):
            value = instruction.value(attribute.name)
            if value is None or not _add(draft, instruction, attribute.name, value):
                raise HloError(f"{instruction.name}: no proto can hold {attribute.name}={attribute.value}")


def _add_groups(draft: MessageBuilder, instruction: Instruction) -> None:
    """Add the messages that several attributes make up, and those that XLA wants even where text has none."""
    opcode = instruction.written_opcode
    if opcode == "ragged-dot":
        if (ragged := ragged_dot_dimension_numbers(instruction)) is not None:
            draft.add("ragged_dot_dimension_numbers", ragged_dot_dimension_numbers_draft(ragged))
    elif (dot := dot_dimension_numbers(instruction)) is not None:
        draft.add("dot_dimension_numbers", fieldwise_draft("DotDimensionNumbers", dot))
    elif (gather := gather_dimension_numbers(instruction)) is not None:
        draft.add("gather_dimension_numbers", fieldwise_draft("GatherDimensionNumbers", gather))
    elif (scatter := scatter_dimension_numbers(instruction)) is not None:
        draft.add("scatter_dimension_numbers", fieldwise_draft("ScatterDimensionNumbers", scatter))
    elif opcode == "cholesky":
        draft.add("cholesky_options", MessageBuilder("CholeskyOptions").add("lower", instruction.flag("lower")))
    elif opcode == "triangular-solve":
        options = MessageBuilder("TriangularSolveOptions").add("transpose_a", instruction.string("transpose_a"))
        for name in ("left_side", "lower", "unit_diagonal"):
            options.add(name, instruction.flag(name))
        draft.add("triangular_solve_options", options)
    if (
        opcode in (opcodes.CONVOLUTION, opcodes.REDUCE_WINDOW, opcodes.SELECT_AND_SCATTER)
        and instruction.window is None
    ):
        draft.add("window", MessageBuilder("Window"))
    if opcode == "topk" and instruction.attribute("largest") is None:
        draft.add("largest", True)
    if opcode == "scan" and instruction.attribute("is_associative") is None:
        draft.add("is_associative", "false")
    if opcode == opcodes.CUSTOM_CALL and instruction.attribute("api_version") is None:
        draft.add("custom_call_api_version", str(CustomCallApiVersion.ORIGINAL))
    precisions = instruction.items_of("operand_precision", str)
    algorithm = instruction.string("algorithm") if opcode != "rng-bit-generator" else None
    if precisions or algorithm is not None:
        config = MessageBuilder("PrecisionConfig").add("operand_precision", precisions).add("algorithm", algorithm)
        draft.add("precision_config", config)


def _add(draft: MessageBuilder, instruction: Instruction, name: str, value: AttributeValue) -> bool:
    """Add what one attribute says; whether that could be done."""
    if name == "operand_precision" or (name == "algorithm" and instruction.written_opcode != "rng-bit-generator"):
        return True
    field = _field(instruction.written_opcode, name)
    match name, value:
        case _, UnparsedText():
            return False
        case "is_associative", bool():
            draft.add(field, "true" if value else "false")
        case "cross_program_prefetch_index", int():
            draft.add(field, value, always=True)
        case (("iota_dimension" | "inferred_dimension"), int()):
            draft.add(field, (value,))
        case _, CollectiveDeviceList() | IotaReplicaGroupList() | MeshAxesReplicaGroupList():
            add_replica_groups(draft, value)
        case _, Domain():
            draft.add("domain_entry_sharding", sharding_draft(value.exit))
            draft.add("domain_exit_sharding", sharding_draft(value.entry))
        case _ if (message := _message(value)) is not None:
            draft.add(field, message)
        case _, tuple():
            return _add_list(draft, name, field, value)
        case _ if field in fields_of(KIND):
            draft.add(field, value if isinstance(value, bool | int | float) else str(value))
        case _:
            return False
    return True


def _field(opcode: str, name: str) -> str:
    if name == "slice_sizes":
        return "gather_slice_sizes" if opcode == "gather" else "dynamic_slice_sizes"
    return "rng_algorithm" if name == "algorithm" else _FIELDS.get(name, name)


def _message(value: AttributeValue) -> MessageBuilder | list[MessageBuilder] | str | None:
    """A value that has a message of its own, or several."""
    match value:
        case BackendConfig():
            return value.text
        case ConvolutionDimensionNumbers():
            return fieldwise_draft("ConvolutionDimensionNumbers", value)
        case FrontendAttributes():
            return frontend_attributes_draft(value)
        case OriginalValue():
            return original_value_draft(value)
        case PaddingConfig():
            return padding_config_draft(value)
        case ResultAccuracy():
            return result_accuracy_draft(value)
        case Sharding() | NamedSharding() | TupleSharding():
            return sharding_draft(value)
        case Slice():
            return slice_drafts(value)
        case ArrayLiteral() | TupleLiteral():
            return literal_draft(value)
        case SparsityConfig():
            return sparsity_config_draft(value)
        case StatisticsViz():
            return statistics_draft(value)
        case Window():
            return window_draft(value)
    return shape_draft(value) if isinstance(value, Shape) else None


def _add_list(draft: MessageBuilder, name: str, field: str, values: tuple[AttributeValue, ...]) -> bool:
    """Add what an attribute lists."""
    if name == "parameter_replication":
        flags = [value is True for value in values]
        draft.add(field, MessageBuilder("ParameterReplication").add("replicated_at_leaf_buffers", flags))
    elif name == "operand_layout_constraints":
        draft.add("constrain_layout", True)
        draft.add(field, [shape_draft(value) for value in values if isinstance(value, Shape)])
    elif name == "output_to_operand_aliasing":
        aliases = (value for value in values if isinstance(value, OutputOperandAlias))
        draft.add(field, map(output_operand_alias_draft, aliases))
    elif name == "source_target_pairs":
        draft.add(field, [MessageBuilder("SourceTarget").add("source", a).add("target", b) for a, b in _pairs(values)])
    elif name == "slice_sizes" or field in fields_of(KIND):
        draft.add(field, _flat(values))
    else:
        return False
    return True


def _pairs(values: tuple[AttributeValue, ...]) -> list[tuple[int, int]]:
    lists = [_flat(value) for value in values if isinstance(value, tuple)]
    return [(pair[0], pair[1]) for pair in lists if len(pair) == len(("source", "target"))]


def _flat(values: tuple[AttributeValue, ...]) -> list[int]:
    found: list[int] = []
    for value in values:
        if isinstance(value, tuple):
            found.extend(_flat(value))
        elif isinstance(value, int):
            found.append(value)
    return found
