"""The attributes that instructions of any opcode may have, those that are printed among them, and those of headers.

Mirrors the first attributes of `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, and `PrintExtraAttributes` of
xla/hlo/ir/hlo_instruction.cc, in whose order the rows stand. Of headers `ParseHloModule` of the same parser, and
`HloModule::ToProto` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place

_ROUNDED: Final = """acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one
    logistic rsqrt sine sinh sqrt tan tanh"""
_REPLICATION: Final = "for each leaf whether all replicas get the same"

COMMON: Final = (
    AttributeRow(
        "is_composite",
        Kind.BOOL,
        "call",
        "whether the call stands for one operation of the framework",
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow(
        "sharding", Kind.SHARDING, meaning="how the value is divided among devices", place=Place.BEFORE_CONTROL
    ),
    AttributeRow(
        "frontend_attributes",
        Kind.FRONTEND_ATTRIBUTES,
        meaning="notes of the framework that made the program",
        label="frontend",
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        meaning=_REPLICATION,
        proto_field="parameter_replication.replicated_at_leaf_buffers",
        place=Place.ASIDE,  # the parser takes it of all, only parameters print it
    ),
    AttributeRow(
        "control-predecessors",
        Kind.INSTRUCTIONS,
        meaning="these have to run before it, though no value says so",
        label="after",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "statistics",
        Kind.STATISTICS,
        meaning="numbers that a profiler attached",
        proto_field="statistics_viz",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow(
        "result_accuracy",
        Kind.RESULT_ACCURACY,
        _ROUNDED,
        "how exact the result has to be",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow(
        "origin",
        Kind.ORIGIN,
        meaning="which instruction it was before optimization",
        proto_field="original_value",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("metadata", Kind.METADATA, place=Place.ASIDE),
    AttributeRow(
        "backend_config",
        Kind.STRING_OR_JSON,
        meaning="settings of the compiler's backend for this instruction",
        label="backend",
        place=Place.ASIDE,
    ),
)
OF_PARAMETERS: Final = (
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        "parameter",
        _REPLICATION,
        proto_field="parameter_replication.replicated_at_leaf_buffers",
    ),
)
HEADER: Final = (
    # what belongs to the configuration of the compiler has no field
    AttributeRow("is_scheduled", Kind.BOOL, proto_field="schedule.sequences"),
    AttributeRow("input_output_alias", Kind.ALIASING, proto_field="input_output_alias.entries"),
    AttributeRow("buffer_donor", Kind.BUFFER_DONORS, proto_field="buffer_donor.entries"),
    AttributeRow("alias_passthrough_params", Kind.BOOL),
    AttributeRow("entry_computation_layout", Kind.COMPUTATION_LAYOUT, proto_field="host_program_shape"),
    AttributeRow("allow_spmd_sharding_propagation_to_parameters", Kind.BOOLS_OR_BOOL),
    AttributeRow("allow_spmd_sharding_propagation_to_output", Kind.BOOLS_OR_BOOL),
    AttributeRow("replica_count", Kind.INT, proto_field="device_assignment.replica_count", usual=("1",)),
    AttributeRow("num_partitions", Kind.INT, proto_field="device_assignment.computation_count", usual=("1",)),
    AttributeRow("frontend_attributes", Kind.FRONTEND_ATTRIBUTES),
    AttributeRow("origin_recovery_table", Kind.RECOVERY_TABLE, proto_field="original_value_recovery_table.entries"),
    AttributeRow("debug_attributes", Kind.DEBUG_ATTRIBUTES),
    AttributeRow("backend_config", Kind.STRING_OR_JSON),
)
