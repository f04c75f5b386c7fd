"""The attributes of a module's header.

Mirrors `ParseHloModule` of xla/hlo/parser/hlo_parser.cc, and `HloModule::ToProto` of xla/hlo/ir/hlo_module.cc for the
fields. What belongs to the configuration of the compiler has none.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

HEADER: Final = (
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
