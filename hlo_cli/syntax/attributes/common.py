"""The attributes of all opcodes, of opcodes with few attributes, and of headers.

Mirrors the first attributes of `ParseInstructionRhs` of xla/hlo/parser/hlo_parser.cc, and `PrintExtraAttributes` of
xla/hlo/ir/hlo_instruction.cc, and has their order; for headers `ParseHloModule` of the same parser, and
`HloModule::ToProto` of xla/hlo/ir/hlo_module.cc.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind, Place

_REPLICATION: Final = "per leaf: whether all replicas have the same value"

COMMON: Final = (
    AttributeRow(
        "is_composite",
        Kind.BOOL,
        "whether the call is a composite operation",
        words={"true": "the call is a composite operation"},
        place=Place.BEFORE_CONTROL,
    ),
    AttributeRow("sharding", Kind.SHARDING, "sharding across devices", place=Place.BEFORE_CONTROL),
    AttributeRow(
        "frontend_attributes",
        Kind.FRONTEND_ATTRIBUTES,
        "attributes set by the framework",
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
        "control dependencies: must run first",
        label="control deps",
        place=Place.ASIDE,
    ),
    AttributeRow(
        "statistics",
        Kind.STATISTICS,
        "profiler statistics",
        proto_field="statistics_viz",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("result_accuracy", Kind.RESULT_ACCURACY, "required result accuracy", place=Place.BEHIND_CONTROL),
    AttributeRow(
        "origin",
        Kind.ORIGIN,
        "original instruction before optimization",
        proto_field="original_value",
        place=Place.BEHIND_CONTROL,
    ),
    AttributeRow("metadata", Kind.METADATA, place=Place.ASIDE),
    AttributeRow(
        "backend_config",
        Kind.STRING_OR_JSON,
        "backend configuration",
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
        "comparison direction",
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
    AttributeRow("order", Kind.ORDER, "floating-point order (obsolete)", proto_field="comparison_order"),
    AttributeRow(
        "type",
        Kind.TYPE,
        "comparison type",
        words={
            "FLOAT": "floating point: NaN is unequal to everything",
            "TOTALORDER": "floating point, total order: -NaN < -inf < … < -0 < 0 < … < inf < NaN",
            "SIGNED": "signed integers",
            "UNSIGNED": "unsigned integers",
        },
        proto_field="comparison_type",
    ),
    AttributeRow("exponent_bits", Kind.INT, "exponent bits of the lower-precision format"),
    AttributeRow("mantissa_bits", Kind.INT, "mantissa bits of the lower-precision format"),
    AttributeRow(
        "distribution",
        Kind.DISTRIBUTION,
        "random distribution",
        words={
            "rng_uniform": "uniform between a lower and an upper bound",
            "rng_normal": "normal, with mean and standard deviation",
        },
    ),
    AttributeRow("delta", Kind.INT, "state increment"),
    AttributeRow("infeed_config", Kind.STRING, "infeed configuration"),
    AttributeRow("outfeed_shape", Kind.SHAPE, "shape that the host receives"),
    AttributeRow("outfeed_config", Kind.STRING, "outfeed configuration"),
    AttributeRow("index", Kind.INT, "tuple element, from 0", proto_field="tuple_index"),
    AttributeRow("domain", Kind.DOMAIN, "domain metadata on both sides"),
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
