"""What a message says by the names of its fields: XLA's messages as a table, read, scanned quickly, or written.

>>> scan_instruction(bytes.fromhex("0a01611203706164980281808008b202020304"))
(b'a', b'pad', b'', 16777217, 0, b'', b'\\x03\\x04')
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple

from hlo_cli.dataclass import dataclass
from hlo_cli.ir.notation import text_bytes
from hlo_cli.source import HloError, joined_by_or
from hlo_cli.wire import (
    BYTES,
    VARINT,
    WireError,
    field,
    fixed,
    number_of,
    packed,
    packed_field,
    read_fields,
    read_numbers,
    signed,
    varint,
)

# --- the fields of XLA's messages ---
# The fields of XLA's messages as a table: name, number and type of each.
#
# Mirrors xla/service/hlo.proto and xla/xla_data.proto; names of nested messages omit the outer message.
# `*` marks repeated fields. Fields that are neither read nor written have the type `bytes`.


MESSAGES: Final = """\
HloProto 1:hlo_module:HloModuleProto 3:buffer_assignment:BufferAssignmentProto
HloSnapshot 1:hlo:HloProto 2:arguments:*LiteralProto 3:result:LiteralProto 4:execution_platform:string
HloUnoptimizedSnapshot 1:hlo_module:HloModuleProto 2:partitions:*bytes 3:version:int
HloModuleProtoWithConfig 1:hlo_module:HloModuleProto 2:config:HloModuleConfigProto
HloModuleConfigProto 4:replica_count:int 5:num_partitions:int 17:alias_passthrough_params:bool
  27:allow_spmd_sharding_propagation_to_output:*bool 33:allow_spmd_sharding_propagation_to_parameters:*bool
HloModuleProto 1:name:string 2:entry_computation_name:string 3:computations:*HloComputationProto
  4:host_program_shape:ProgramShapeProto 5:id:int 6:entry_computation_id:int 7:schedule:HloScheduleProto
  8:input_output_alias:HloInputOutputAliasProto 10:cross_program_prefetches:*CrossProgramPrefetch 11:is_dynamic:bool
  12:spmd_output_sharding:OpSharding 13:profile_info:*bytes 14:spmd_parameters_shardings:*OpSharding
  15:device_assignment:DeviceAssignmentProto 16:use_auto_spmd_partitioning:bool
  17:stack_frame_index:StackFrameIndexProto 18:buffer_donor:HloBufferDonorProto
  19:frontend_attributes:FrontendAttributes 20:original_value_recovery_table:OriginalValueRecoveryTableProto
  21:device_type:string 22:payloads:*bytes 23:pjrt_id:int 24:debug_attributes:*DebugAttributeTableEntryProto
  25:backend_config:bytes
HloComputationProto 1:name:string 2:instructions:*HloInstructionProto 4:program_shape:ProgramShapeProto 5:id:int
  6:root_id:int 7:is_fusion_computation:bool 8:execution_thread:string 9:backend_config:bytes
HloInstructionProto 1:name:string 2:opcode:string 3:shape:ShapeProto 7:metadata:OpMetadata 8:literal:LiteralProto
  9:parameter_number:int 11:fusion_kind:string 13:tuple_index:int 14:dimensions:*int 15:window:Window
  16:convolution_dimension_numbers:ConvolutionDimensionNumbers 17:slice_dimensions:*SliceDimensions
  18:exponent_bits:int 19:mantissa_bits:int 20:dynamic_slice_sizes:*int 21:padding_config:PaddingConfig
  22:outfeed_config:bytes 23:distribution:RandomDistribution 24:epsilon:float 25:feature_index:int 26:channel_id:int
  27:infeed_config:bytes 28:custom_call_target:string 29:outfeed_shape:ShapeProto
  30:dot_dimension_numbers:DotDimensionNumbers 31:fft_type:FftType 32:fft_length:*int
  33:gather_dimension_numbers:GatherDimensionNumbers 34:gather_slice_sizes:*int 35:id:int 36:operand_ids:*int
  37:control_predecessor_ids:*int 38:called_computation_ids:*int 40:sharding:OpSharding 43:backend_config:bytes
  45:all_reduce_id:int 47:is_host_transfer:bool 48:scatter_dimension_numbers:ScatterDimensionNumbers
  49:replica_groups:*ReplicaGroup 50:feature_group_count:int 51:precision_config:PrecisionConfig
  52:source_target_pairs:*SourceTarget 54:domain_entry_sharding:OpSharding 55:domain_exit_sharding:OpSharding
  56:constrain_layout:bool 57:operand_shapes_with_layout:*ShapeProto 58:batch_group_count:int
  59:triangular_solve_options:TriangularSolveOptions 60:is_stable:bool 61:parameter_replication:ParameterReplication
  62:cholesky_options:CholeskyOptions 63:comparison_direction:string 65:custom_call_has_side_effect:bool 66:delta:int
  67:indices_are_sorted:bool 68:frontend_attributes:FrontendAttributes 69:unique_indices:bool
  70:rng_algorithm:RandomAlgorithm 71:use_global_device_ids:bool 72:comparison_type:string
  73:is_cross_program_prefetch:bool 74:output_operand_aliasing:*OutputOperandAliasing 75:padding_type:PaddingType
  76:custom_call_schedule:CustomCallSchedule 77:custom_call_api_version:CustomCallApiVersion
  79:async_execution_thread:string 80:cross_program_prefetch_index:int 81:k:int 82:statistics_viz:StatisticsViz
  85:largest:bool 87:collective_device_list:CollectiveDeviceListProto 88:original_value:OriginalValueProto
  89:is_composite:bool 90:ragged_dot_dimension_numbers:RaggedDotDimensionNumbers 91:result_accuracy:ResultAccuracy
  92:iota_collective_device_list:IotaReplicaGroupListProto
  93:mesh_axes_replica_group_list:MeshAxesReplicaGroupListProto 94:is_reverse:bool 95:num_carries:int
  96:is_associative:TriState 97:conv_kind:ConvolutionKind 98:sparsity_config:SparsityConfig
  99:backend_config_payload:Payload 100:has_dynamic_root:bool 101:block_scaling_config:BlockScalingConfig
  102:comparison_order:string 103:shuffle_mode:ShuffleMode
SliceDimensions 1:start:int 2:limit:int 3:stride:int
HloScheduleProto 1:sequences:*SequencesEntry
SequencesEntry 1:key:int 2:value:InstructionSequence
InstructionSequence 1:instruction_ids:*int
HloInputOutputAliasProto 1:entries:*AliasEntryProto
AliasEntryProto 1:output_shape_index:*int 2:parameter_number:int 3:parameter_shape_index:*int 4:kind:AliasKind
HloBufferDonorProto 1:entries:*BufferDonorEntryProto
BufferDonorEntryProto 1:parameter_number:int 2:parameter_shape_index:*int
CrossProgramPrefetch 1:parameter:int 2:index:*int 3:offset:int
StackFrameIndexProto 1:file_names:*string 2:function_names:*string 3:file_locations:*FileLocation
  4:stack_frames:*StackFrame
FileLocation 1:file_name_id:int 2:function_name_id:int 3:line:int 4:column:int 5:end_line:int 6:end_column:int
StackFrame 1:file_location_id:int 2:parent_frame_id:int
DebugAttributeTableEntryProto 1:original_array:OriginalArrayProto 2:debug_attributes:*DebugAttributesProto
DebugAttributesProto 1:log_mode:DebugLogMode 2:callback_id:int 3:op_id:int 4:partitioned:bool
  5:operands_sharding:string 6:x64_config:X64ConfigProto
X64ConfigProto 1:xprecision_64bit_fragment:string 2:original_log_instruction_name:string
  3:xprecision_64bit_original_type:string
OriginalValueRecoveryTableProto 1:entries:*Entry
Entry 1:old_original_array:OriginalArrayProto 2:new_original_array:OriginalArrayProto 3:recovery_module:HloModuleProto
BufferAssignmentProto 1:logical_buffers:*LogicalBufferProto 2:buffer_aliases:*BufferAlias
  3:buffer_allocations:*BufferAllocationProto 4:heap_simulator_traces:*HeapSimulatorTrace 5:peak_buffers:*PeakBuffers
BufferAlias 1:source_buffer_id:int 2:location:Location
PeakBuffers 1:index:int 2:logical_buffer_ids:*int
LogicalBufferProto 1:id:int 2:size:int 3:defined_at:Location 4:color:int
Location 2:instruction_name:string 3:shape_index:*int 4:instruction_id:int
BufferAllocationProto 1:index:int 2:size:int 3:is_thread_local:bool 5:is_entry_computation_parameter:bool
  6:parameter_number:int 7:maybe_live_out:bool 8:color:int 9:assigned:*Assigned 10:parameter_shape_index:*int
  11:is_tuple:bool 12:is_constant:bool 13:is_parameter_aliased_with_output:bool
Assigned 1:logical_buffer_id:int 2:offset:int 3:size:int 4:element_type:PrimitiveType
HeapSimulatorTrace 1:events:*Event 2:whole_module_simulation:bool 3:buffer_allocation_index:int
Event 1:kind:EventKind 2:buffer_id:int 3:computation_name:string 4:instruction_name:string
  5:share_with_canonical_id:int
ShapeProto 2:element_type:PrimitiveType 3:dimensions:*int 4:tuple_shapes:*ShapeProto 5:layout:LayoutProto
  6:is_dynamic_dimension:*bool
LayoutProto 1:minor_to_major:*int 6:tiles:*TileProto 7:element_size_in_bits:int 8:memory_space:int
  9:dim_level_types:*DimLevelType 10:physical_shape:ShapeProto 11:index_primitive_type:PrimitiveType
  12:pointer_primitive_type:PrimitiveType 13:dim_unique:*bool 14:dim_ordered:*bool
  15:dynamic_shape_metadata_prefix_bytes:int 16:tail_padding_alignment_in_elements:int
  17:split_configs:*SplitConfigProto
TileProto 1:dimensions:*int
SplitConfigProto 1:dimension:int 2:split_indices:*int
ProgramShapeProto 1:parameters:*ShapeProto 2:result:ShapeProto 3:parameter_names:*string
LiteralProto 1:shape:ShapeProto 2:preds:*bool 3:u8s:bytes 4:s32s:*int 5:s64s:*int 6:u32s:*uint 7:u64s:*uint
  8:f32s:*float 9:f64s:*double 10:tuple_literals:*LiteralProto 11:f16s:bytes 12:c64s:*float 13:bf16s:bytes
  14:sparse_indices:*int 15:s8s:bytes 16:u16s:bytes 17:s16s:bytes 18:c128s:*double 19:f8e5m2s:bytes 20:f8e4m3fns:bytes
  21:s4s:bytes 22:u4s:bytes 23:f8e4m3b11fnuzs:bytes 24:f8e5m2fnuzs:bytes 25:f8e4m3fnuzs:bytes 26:s2s:bytes
  27:u2s:bytes 28:f8e4m3s:bytes 29:f8e3m4s:bytes 30:s1s:bytes 31:u1s:bytes 32:f4e2m1fns:bytes 33:f8e8m0fnus:bytes
  34:dynamic_sizes:*int 35:f6e3m2fns:bytes 36:f6e2m3fns:bytes
OpMetadata 1:op_type:string 2:op_name:string 3:source_file:string 4:source_line:int 5:profile_type:*ProfileType
  8:size_of_generated_code_in_bytes:int 9:size_of_memory_working_set_in_bytes:int 10:profile_info:bytes
  12:deduplicated_name:string 15:stack_frame_id:int 16:scheduling_name:string 17:source_end_line:int
  18:source_column:int 19:source_end_column:int 20:metadata_payload:Payload
Payload 1:value:bytes 2:id:int
DeviceAssignmentProto 1:replica_count:int 2:computation_count:int 3:computation_devices:*ComputationDevice
ComputationDevice 1:replica_device_ids:*int
FrontendAttributes 1:map:*MapEntry
MapEntry 1:key:string 2:value:string
PaddingConfig 1:dimensions:*PaddingConfigDimension
PaddingConfigDimension 1:edge_padding_low:int 2:edge_padding_high:int 3:interior_padding:int
Window 1:dimensions:*WindowDimension
WindowDimension 1:size:int 2:stride:int 3:padding_low:int 4:padding_high:int 5:window_dilation:int 6:base_dilation:int
  7:window_reversal:bool
GatherDimensionNumbers 1:offset_dims:*int 2:collapsed_slice_dims:*int 3:start_index_map:*int 4:index_vector_dim:int
  5:operand_batching_dims:*int 6:start_indices_batching_dims:*int
ScatterDimensionNumbers 1:update_window_dims:*int 2:inserted_window_dims:*int 3:scatter_dims_to_operand_dims:*int
  4:index_vector_dim:int 5:input_batching_dims:*int 6:scatter_indices_batching_dims:*int
ConvolutionDimensionNumbers 3:kernel_input_feature_dimension:int 4:kernel_output_feature_dimension:int
  6:kernel_spatial_dimensions:*int 7:input_batch_dimension:int 8:input_feature_dimension:int
  9:output_batch_dimension:int 10:output_feature_dimension:int 11:input_spatial_dimensions:*int
  12:output_spatial_dimensions:*int
DotDimensionNumbers 1:lhs_contracting_dimensions:*int 2:rhs_contracting_dimensions:*int 3:lhs_batch_dimensions:*int
  4:rhs_batch_dimensions:*int
RaggedDotDimensionNumbers 1:dot_dimension_numbers:DotDimensionNumbers 2:lhs_ragged_dimensions:*int
  3:rhs_group_dimensions:*int
SparsityConfig 1:lhs:TensorSparsityConfig 2:rhs:TensorSparsityConfig
TensorSparsityConfig 1:num_non_zero:int 2:block_size:int 3:dimension:int 4:stride:int 5:idx:int
BlockScalingConfig 1:lhs:TensorBlockScalingConfig 2:rhs:TensorBlockScalingConfig
TensorBlockScalingConfig 1:scale_idx:int 2:zero_idx:int 3:strides:*int 4:steps:*int
ShuffleMode 1:rotate:Rotate
Rotate 1:shifts:*int
TriangularSolveOptions 1:left_side:bool 2:lower:bool 3:unit_diagonal:bool 4:transpose_a:Transpose
CholeskyOptions 1:lower:bool
StatisticsViz 1:stat_index_to_visualize:int 2:statistics:*Statistic
Statistic 1:stat_name:string 2:stat_val:double
MeshProto 1:axes:*MeshAxis 2:device_ids:*int 3:iota_transform:IotaTransform
MeshAxis 1:name:string 2:size:int
IotaTransform 1:reshape_dims:*int 2:transpose_perm:*int
AxisRefProto 1:mesh_axis_index:int 2:sub_axis_info:SubAxis
SubAxis 1:pre_size:int 2:size:int
OpSharding 1:type:ShardingType 2:tile_shape:ShapeProto 3:tile_assignment_dimensions:*int
  4:tile_assignment_devices:*int 5:tuple_shardings:*OpSharding 6:replicate_on_last_tile_dim:bool
  7:metadata:*OpMetadata 8:last_tile_dims:*ShardingType 9:iota_reshape_dims:*int 10:iota_transpose_perm:*int
  11:is_shard_group:bool 12:shard_group_id:int 13:shard_group_type:ShardGroupType 14:named_sharding:NamedShardingProto
NamedShardingProto 2:mesh:MeshProto 3:dim_shardings:*DimensionSharding 4:replicated_axes:*AxisRefProto
  5:unreduced_axes:*AxisRefProto 6:metadata:*OpMetadata 7:manual_axes:*AxisRefProto 8:reduction_op:ReductionOpProto
DimensionSharding 1:axes:*AxisRefProto 2:is_closed:bool
ReplicaGroup 1:replica_ids:*int
CollectiveDeviceListProto 1:replica_groups:*ReplicaGroup 2:iota_replica_group_list:IotaReplicaGroupListProto
IotaReplicaGroupListProto 1:num_replica_groups:int 2:num_devices_per_group:int 3:iota_reshape_dims:*int
  4:iota_transpose_perm:*int
MeshAxesReplicaGroupListProto 1:mesh:MeshProto 2:axes:*AxisRefProto
SourceTarget 1:source:int 2:target:int
ResultAccuracy 1:mode:AccuracyMode 2:tolerance:Tolerance
Tolerance 1:atol:double 2:rtol:double 3:ulps:int
PrecisionConfig 1:operand_precision:*Precision 2:algorithm:Algorithm
ParameterReplication 1:replicated_at_leaf_buffers:*bool
OutputOperandAliasing 1:output_shape_index:*int 2:operand_index:int 3:operand_shape_index:*int
OriginalValueProto 1:elements:*OriginalValueElementProto 2:is_synthetic_call:bool 3:call_hierarchy:string
OriginalValueElementProto 1:shape_index:*int 2:original_array:OriginalArrayProto
OriginalArrayProto 1:instruction_name:string 2:shape_index:*int
"""
"""One message a paragraph, further lines indented; each field is `number:name:type`."""

ENUMS: Final = """\
AccuracyMode default highest
AliasKind undefined may-alias must-alias
Algorithm unset dot_any_f8_any_f8_f32 dot_any_f8_any_f8_f32_fast_accum dot_f16_f16_f16 dot_f16_f16_f32
  dot_bf16_bf16_bf16 dot_bf16_bf16_f32 dot_bf16_bf16_f32_x3 dot_bf16_bf16_f32_x6 dot_tf32_tf32_f32
  dot_tf32_tf32_f32_x3 dot_f32_f32_f32 dot_f64_f64_f64 dot_bf16_bf16_f32_x9 dot_bf16_bf16_fp8x3 dot_bf16_bf16_fp8x4
ConvolutionKind unset fprop dgrad wgrad
CustomCallApiVersion API_VERSION_UNSPECIFIED API_VERSION_ORIGINAL API_VERSION_STATUS_RETURNING
  API_VERSION_STATUS_RETURNING_UNIFIED API_VERSION_TYPED_FFI
CustomCallSchedule SCHEDULE_NONE SCHEDULE_LATEST SCHEDULE_EARLIEST
DebugLogMode none default fusion_debugger no_fusion guaranteed
DimLevelType DIM_DENSE DIM_COMPRESSED DIM_SINGLETON DIM_LOOSE_COMPRESSED
EventKind ALLOC FREE SHARE_WITH
FftType FFT IFFT RFFT IRFFT
PaddingType PADDING_INVALID PADDING_VALID PADDING_SAME
Precision default high highest
PrimitiveType invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 f8e5m2 f8e4m3fn
  s4 u4 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu buffer f6e3m2fn f6e2m3fn
ProfileType INVALID WINDOW FLAG INTEGER
RandomAlgorithm rng_default rng_three_fry rng_philox
RandomDistribution rng_invalid rng_uniform rng_normal
ReductionOpProto sum max min
ShardGroupType as like
ShardingType replicated maximal tuple other manual unknown unreduced
Transpose TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT
TriState unspecified true false
"""
"""The words of every enumeration in HLO text, counted from 0."""

ENUM_PREFIXES: Final = {"Algorithm": "ALG_", "ConvolutionKind": "CONVOLUTION_KIND_", "TriState": "TRI_STATE_"}
"""What protos write before the words of an enumeration."""

IRREGULAR_NAMES: Final = {
    "AliasKind": {"UNDEFINED_ALIAS": "UNDEFINED"},
    "PrimitiveType": {"PRIMITIVE_TYPE_INVALID": "INVALID", "OPAQUE_TYPE": "OPAQUE"},
}
"""The names in protos that differ from the words."""

RENAMED_FIELDS: Final = {"HloModuleProto": {"program_shape": "host_program_shape"}}
"""Fields that older versions of XLA called differently."""


# --- fields by name ---
# The table of fields, read on first use: the number and type of a field name, and the words of enumerations.


VARINT_TYPES: Final = frozenset(("int", "uint", "bool"))
"""The types encoded as varints, without enumerations."""
FLOATS: Final = {"float": "<f", "double": "<d"}
"""The types of fixed width, with their format in `struct`."""
TEXTS: Final = frozenset(("string", "bytes"))


class FieldType(NamedTuple):
    """One row of the table."""

    number: int
    type: str
    repeated: bool

    @property
    def is_number(self) -> bool:
        """Whether the value is a varint."""
        return self.type in VARINT_TYPES or self.type in _enums()

    @property
    def is_message(self) -> bool:
        """Whether the value is a message of its own."""
        return not self.is_number and self.type not in FLOATS and self.type not in TEXTS


@cache
def fields_of(message: str) -> dict[str, FieldType]:
    """The fields of a message by name.

    >>> fields_of("SourceTarget")["target"].number
    2
    """
    fields = {}
    for column in _rows(MESSAGES)[message]:
        number, name, kind = column.split(":")
        fields[name] = FieldType(int(number), kind.removeprefix("*"), kind.startswith("*"))
    return fields


def word_of(enum: str, number: int) -> str:
    """The word in HLO text for a value of an enumeration.

    >>> word_of("Precision", 2), word_of("PrimitiveType", 11)
    ('highest', 'f32')
    """
    words = _enums()[enum]
    if not 0 <= number < len(words):
        raise HloError(f"unknown {enum} value {number}")
    return words[number]


def _number_of_word(enum: str, word: str) -> int:
    """The value of a word, ignoring case.

    >>> _number_of_word("CustomCallSchedule", "SCHEDULE_LATEST")
    1
    """
    words = _enums()[enum]
    if word in words:
        return words.index(word)
    folded = [known.casefold() for known in words]
    if word.casefold() not in folded:
        raise HloError(f"unknown {enum} '{word}'", hint=f"expected one of {joined_by_or(words)}")
    return folded.index(word.casefold())


@cache
def enum_names(enum: str) -> dict[str, int]:
    """The values of an enumeration by their names in protos, and by those of their words.

    >>> enum_names("PrimitiveType")["OPAQUE_TYPE"], enum_names("Algorithm")["ALG_UNSET"]
    (14, 0)
    """
    prefix = ENUM_PREFIXES.get(enum, "")
    words = {word.upper().replace("-", "_"): number for number, word in enumerate(_enums()[enum])}
    irregular = {name: words[word] for name, word in IRREGULAR_NAMES.get(enum, {}).items()}
    return irregular | {prefix + word: number for word, number in words.items()} | words


@cache
def _enums() -> dict[str, list[str]]:
    return _rows(ENUMS)


@cache
def _rows(table: str) -> dict[str, list[str]]:
    lines = table.replace("\n  ", " ").splitlines()
    return {name: columns for name, *columns in map(str.split, lines)}


# --- messages that were read ---
# Messages that were read, with access by field name.


_NONE: Final[tuple[int | bytes, ...]] = ()


class Message:
    """A message that was read. Absent fields read as zero, empty, or an empty message, as in proto3.

    >>> pair = Message("SourceTarget", bytes((0x08, 0x01, 0x10, 0x03)))
    >>> pair.integer("source"), pair.integer("target"), pair.has("target")
    (1, 3, True)
    """

    __slots__ = ("_types", "_values", "encoded", "kind")

    def __init__(self, kind: str, data: bytes = b"") -> None:
        self.kind = kind
        self.encoded = data
        self._types = fields_of(kind)
        self._values: dict[int, list[int | bytes]] = {}
        for number, value in read_fields(data):
            self._values.setdefault(number, []).append(value)

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of the fields that are present."""
        return self._values.keys()

    def has(self, name: str) -> bool:
        """Whether the field is present, even if it is zero or empty."""
        return self._types[name].number in self._values

    def integer(self, name: str) -> int:
        """A number."""
        return self._number(self._types[name], self._last(name) or 0)

    def flag(self, name: str) -> bool:
        """A truth value."""
        return self._last(name) not in (None, 0)

    def word(self, name: str) -> str:
        """The word of an enumeration value."""
        return word_of(self._types[name].type, self.integer(name))

    def text(self, name: str) -> str:
        """A string; bytes that are not UTF-8 become lone surrogates, as in files that are read."""
        return self.data(name).decode("utf-8", "surrogateescape")

    def data(self, name: str) -> bytes:
        """The bytes of a string, a message, or a bytes field."""
        value = self._last(name)
        if isinstance(value, int):
            raise WireError(f"unexpected number in {self.kind}.{name}")
        return value or b""

    def integers(self, name: str) -> tuple[int, ...]:
        """The numbers of a repeated field, packed or not."""
        kind, numbers = self._types[name], list[int]()
        for value in self._all(name):
            if isinstance(value, int):
                numbers.append(self._number(kind, value))
            else:
                numbers.extend(self._number(kind, number) for number in read_numbers(value))
        return tuple(numbers)

    def flags(self, name: str) -> tuple[bool, ...]:
        """The truth values of a repeated field."""
        return tuple(map(bool, self.integers(name)))

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a repeated field."""
        return tuple(word_of(self._types[name].type, number) for number in self.integers(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """The strings of a repeated field."""
        return tuple(value.decode("utf-8", "surrogateescape") for value in self.all_data(name))

    def decimal(self, name: str) -> float:
        """A float or a double."""
        format_ = FLOATS[self._types[name].type]
        data = self.data(name)
        if len(data) != struct.calcsize(format_):
            if data:
                raise WireError(f"invalid length of {self.kind}.{name}: {len(data)} bytes")
            return 0.0
        number: float = struct.unpack(format_, data)[0]
        return number

    def packed(self, name: str) -> bytes:
        """The values of a repeated field of numbers in packed wire format."""
        number = self._types[name].number
        return packed_field(((number, value) for value in self._all(name)), number)

    def all_data(self, name: str) -> tuple[bytes, ...]:
        """The bytes of each occurrence of a repeated field."""
        messages = tuple(value for value in self._all(name) if not isinstance(value, int))
        if len(messages) != len(self._all(name)):
            raise WireError(f"unexpected number in {self.kind}.{name}")
        return messages

    def message(self, name: str) -> Message:
        """The message in a field; several occurrences are merged, as protos define."""
        return Message(self._types[name].type, b"".join(self.all_data(name)))

    def messages(self, name: str) -> tuple[Message, ...]:
        """The messages of a repeated field."""
        return tuple(Message(self._types[name].type, data) for data in self.all_data(name))

    def _all(self, name: str) -> list[int | bytes] | tuple[int | bytes, ...]:
        return self._values.get(self._types[name].number, _NONE)

    def _last(self, name: str) -> int | bytes | None:
        values = self._values.get(self._types[name].number)
        return values[-1] if values else None

    def _number(self, kind: FieldType, value: int | bytes) -> int:
        if not isinstance(value, int):
            raise WireError(f"expected a number in {self.kind}")
        return value if kind.type == "uint" else signed(value)


# --- messages to be written ---
# Messages to be written, by the names of their fields.


class MessageBuilder:
    """A message to be written: fields are added by name, in any order, and come out by number.

    >>> MessageBuilder("SourceTarget").add("target", 3).add("source", 0).to_bytes().hex()
    '1003'
    """

    __slots__ = ("_parts", "_places")

    def __init__(self, kind: str) -> None:
        self._places = _places(kind)
        self._parts: list[tuple[int, bytes]] = []

    def add(self, name: str, value: Value | None, *, always: bool = False) -> MessageBuilder:
        """The same draft with one more field; what is absent, zero or empty is left out unless it is `always` there.

        A message is there even if it is empty, as long as it is given.
        """
        if value or (always and value is not None):
            place = self._places[name]
            if place.repeated:
                self._parts.extend([(place.number, part) for part in _all(place, value)])
            else:
                self._parts.append((place.number, _one(place, value)))
        return self

    def include(self, other: MessageBuilder) -> MessageBuilder:
        """The same draft with all fields of another one of its kind."""
        self._parts.extend(other._parts)
        return self

    def to_bytes(self) -> bytes:
        """The bytes of the message."""
        self._parts.sort(key=_BY_NUMBER)
        return b"".join([part for _, part in self._parts])


Scalar = int | float | str | bytes | MessageBuilder
"""What one occurrence of a field may hold; a str stands for a word where the field is an enumeration."""
Value = Scalar | Iterable[Scalar]
_BY_NUMBER: Final = itemgetter(0)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field goes, and how: what is the same for all its values."""

    number: int
    type: str
    repeated: bool
    is_number: bool
    is_text: bool
    float_format: str
    number_tag: bytes
    bytes_tag: bytes


@cache
def _places(message: str) -> dict[str, _Place]:
    return {name: _place(kind) for name, kind in fields_of(message).items()}


def _place(kind: FieldType) -> _Place:
    return _Place(
        kind.number,
        kind.type,
        kind.repeated,
        kind.is_number,
        kind.type in TEXTS,
        FLOATS.get(kind.type, ""),
        varint(kind.number << 3 | VARINT),
        varint(kind.number << 3 | BYTES),
    )


def _all(place: _Place, value: Value) -> Iterable[bytes]:
    if isinstance(value, int | float | str | bytes | MessageBuilder):
        return (_one(place, value),)
    if place.is_number:
        numbers = packed([_as_number(place, item) for item in value])
        return (_one(place, numbers),) if numbers else ()
    return [_one(place, item) for item in value]


def _one(place: _Place, value: Value) -> bytes:
    if isinstance(value, str) and place.is_text:
        value = text_bytes(value)
    elif isinstance(value, MessageBuilder):
        value = value.to_bytes()
    if isinstance(value, bytes):
        return place.bytes_tag + varint(len(value)) + value
    if place.float_format:
        return fixed(place.number, struct.pack(place.float_format, value))
    return place.number_tag + varint(_as_number(place, value))


def _as_number(place: _Place, value: object) -> int:
    if isinstance(value, str):
        return _number_of_word(place.type, value)
    assert isinstance(value, int)
    return value


# --- the few fields that the IR needs at once ---
# The few fields of an instruction that the IR needs at once, found without reading the others.
#
# Instructions are nearly all of a proto. XLA writes fields by number, so the first ones are read in order; among the
# rest, fields that are not needed are skipped.


KIND: Final = "HloInstructionProto"
INSTRUCTION_FIELDS: Final = {name: row.number for name, row in fields_of(KIND).items()}
"""The numbers of an instruction's fields."""

_NAME, _OPCODE, _SHAPE, _METADATA = (
    INSTRUCTION_FIELDS[name] << 3 | BYTES for name in ("name", "opcode", "shape", "metadata")
)
_ID, _PARAMETER, _ELEMENT = (
    INSTRUCTION_FIELDS[name] << 3 | VARINT for name in ("id", "parameter_number", "tuple_index")
)
_OPERANDS, _CALLED = (INSTRUCTION_FIELDS[name] << 3 | BYTES for name in ("operand_ids", "called_computation_ids"))
_LISTS: Final = (_OPERANDS >> 3, _CALLED >> 3)
_USUAL_END: Final = field(INSTRUCTION_FIELDS["frontend_attributes"], b"") + field(
    INSTRUCTION_FIELDS["statistics_viz"], b""
)
"""Two empty messages with which XLA ends nearly every instruction."""

Scanned = tuple[bytes, bytes, bytes, int, int, bytes, bytes]
"""Name, opcode, shape, id, parameter number or tuple index; packed, the ids of operands and called computations."""


def scan_instruction(data: bytes) -> Scanned:
    """Scans one instruction; one loop without a call in it, as reading spends most time here."""
    name = opcode = shape = operands = called = b""
    number = parameter = at = 0
    end = len(data)
    if data.endswith(_USUAL_END):  # two fields less for nearly every instruction
        end -= len(_USUAL_END)
    try:
        if data[0] == _NAME and (value := data[1]) < 128:
            at = 2 + value
            name = data[2:at]
            if data[at] == _OPCODE and (value := data[at + 1]) < 128:
                start = at + 2
                at = start + value
                opcode = data[start:at]
                if data[at] == _SHAPE and (value := data[at + 1]) < 128:
                    start = at + 2
                    at = start + value
                    shape = data[start:at]
                    if data[at] == _METADATA and (value := data[at + 1]) < 128:
                        at += 2 + value
        while at < end:
            tag = data[at]
            at += 1
            if tag > 127:
                tag += (data[at] << 7) - 128
                at += 1
            value = data[at]
            at += 1
            if value > 127:
                start = at - 1
                while data[at] > 127:  # lengths and ids of three bytes and more
                    at += 1
                at += 1
                value = number_of(data[start:at])
            if tag == _ID:
                number = value
            elif tag & 7 == BYTES:
                start = at
                at += value
                if tag == _OPERANDS:
                    operands += data[start:at]
                elif tag == _CALLED:
                    called += data[start:at]
                elif tag == _SHAPE:
                    shape = data[start:at]
                elif tag == _NAME:
                    name = data[start:at]
                elif tag == _OPCODE:
                    opcode = data[start:at]
            elif tag in (_PARAMETER, _ELEMENT):
                parameter = value
            # a tag of three bytes was read as two: no field of an instruction has one
            elif tag & 7 != VARINT or tag > 16383 or tag >> 3 in _LISTS:
                return _scan_slowly(data)
    except IndexError:
        at = end + 1
    if at != end:
        return _scan_slowly(data)
    return name, opcode, shape, number, parameter, operands, called


def _scan_slowly(data: bytes) -> Scanned:
    """The slow path, for encodings that XLA does not write: fixed-width numbers, unpacked lists, broken fields."""
    fields = read_fields(data)
    texts = {at: value for at, value in fields if isinstance(value, bytes)}
    numbers = {at: value for at, value in fields if isinstance(value, int)}
    return (
        texts.get(_NAME >> 3, b""),
        texts.get(_OPCODE >> 3, b""),
        texts.get(_SHAPE >> 3, b""),
        numbers.get(_ID >> 3, 0),
        numbers.get(_PARAMETER >> 3, numbers.get(_ELEMENT >> 3, 0)),
        packed_field(fields, _OPERANDS >> 3),
        packed_field(fields, _CALLED >> 3),
    )
