"""The attributes of all opcodes, of opcodes with few attributes, and of headers.

Mirrors the first attributes of `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, and `PrintExtraAttributes` of
xla/hlo/ir/hlo_instruction.cc, and has their order; for headers `ParseHloModule` of the same parser, and
`HloModule::ToProto` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place

_REPLICATION: Final = "for each leaf whether all replicas get the same"

COMMON: Final = (
    AttributeRow(
        "is_composite",
        Kind.BOOL,
        "whether the call stands for one operation of the framework",
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow("sharding", Kind.SHARDING, "how the value is divided among devices", place=Place.BEFORE_CONTROL),
    AttributeRow(
        "frontend_attributes",
        Kind.FRONTEND_ATTRIBUTES,
        "notes of the framework that made the program",
        label="frontend",
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        _REPLICATION,
        proto_field="parameter_replication.replicated_at_leaf_buffers",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "control-predecessors",
        Kind.INSTRUCTIONS,
        "these have to run before it, though no value says so",
        label="after",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "statistics",
        Kind.STATISTICS,
        "numbers that a profiler attached",
        proto_field="statistics_viz",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("result_accuracy", Kind.RESULT_ACCURACY, "how exact the result has to be", place=Place.BEHIND_CONTROL),
    AttributeRow(
        "origin",
        Kind.ORIGIN,
        "which instruction it was before optimization",
        proto_field="original_value",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("metadata", Kind.METADATA, place=Place.ASIDE),
    AttributeRow(
        "backend_config",
        Kind.STRING_OR_JSON,
        "settings of the compiler's backend for this instruction",
        label="backend",
        place=Place.ASIDE,
    ),
)
OF_PARAMETERS: Final = (
    AttributeRow(
        "parameter_replication",
        Kind.BOOLS,
        _REPLICATION,
        "parameter",
        proto_field="parameter_replication.replicated_at_leaf_buffers",
    ),
)
OTHERS: Final = (
    AttributeRow(
        "direction",
        Kind.DIRECTION,
        "which comparison",
        words={
            "EQ": "equal",
            "NE": "not equal",
            "GE": "greater or equal",
            "GT": "greater",
            "LE": "less or equal",
            "LT": "less",
        },
        proto_field="comparison_direction",
    ),
    AttributeRow("order", Kind.ORDER, "how floats are compared; an old spelling", proto_field="comparison_order"),
    AttributeRow(
        "type",
        Kind.TYPE,
        "how the numbers are compared",
        words={
            "FLOAT": "as floats: nothing equals nan",
            "TOTALORDER": "as floats in total order: -nan, -inf, … -0, 0, … inf, nan",
            "SIGNED": "as signed integers",
            "UNSIGNED": "as unsigned integers",
        },
        proto_field="comparison_type",
    ),
    AttributeRow("exponent_bits", Kind.INT, "bits that are left for the exponent"),
    AttributeRow("mantissa_bits", Kind.INT, "bits that are left for the mantissa"),
    AttributeRow(
        "distribution",
        Kind.DISTRIBUTION,
        "how the numbers are distributed",
        words={"rng_uniform": "uniform between two limits", "rng_normal": "normal with mean and deviation"},
    ),
    AttributeRow("delta", Kind.INT, "how far the state moves on"),
    AttributeRow("infeed_config", Kind.STRING, "settings of the infeed"),
    AttributeRow("outfeed_shape", Kind.SHAPE, "the shape in which the host gets it"),
    AttributeRow("outfeed_config", Kind.STRING, "settings of the outfeed"),
    AttributeRow("index", Kind.INT, "which element, counted from 0", proto_field="tuple_index"),
    AttributeRow("domain", Kind.DOMAIN, "the attribute's values on both sides"),
)
HEADER: Final = (
    # the compiler's configuration has no field
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
