"""The reader function for each kind of attribute whose value can be read on its own.

The grammars of prose values use pyparsing, which is imported when the first of them is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hlo_cli.ir.attributes.sharding import Domain
from hlo_cli.ir.attributes.value_types import AttributeValue
from hlo_cli.syntax.attributes.row import Kind
from hlo_cli.syntax.literals.read import read_shaped_literal
from hlo_cli.syntax.scanning import values
from hlo_cli.syntax.scanning.tokens import Tokens
from hlo_cli.syntax.values import metadata_grammar as metadata
from hlo_cli.syntax.values import operation_values

if TYPE_CHECKING:
    from hlo_cli.ir.attributes.metadata import DebuggedArray, OriginalValue, RecoveryTable, StatisticsViz
    from hlo_cli.ir.attributes.sharding import AnySharding, ReplicaGroups
    from hlo_cli.ir.attributes.value_types import ResultAccuracy

ValueReader = Callable[[Tokens], AttributeValue]


def read_sharding(tokens: Tokens) -> AnySharding:
    """`{devices=[2]<=[2]}`, or one for each leaf of a tuple."""
    from hlo_cli.syntax.values import sharding

    return sharding.read_sharding(tokens)


def read_replica_groups(tokens: Tokens) -> ReplicaGroups:
    """`{{0,1},{2,3}}`, `[2,2]<=[4]` or `mesh['x'=2] {'x'}`."""
    if tokens.kind == "{":
        return operation_values.read_device_list(tokens)
    from hlo_cli.syntax.values import mesh

    return mesh.read_group_list(tokens)


def read_origin(tokens: Tokens) -> OriginalValue:
    """`{{"a" {0}}}`."""
    from hlo_cli.syntax.values import origin

    return origin.read_origin(tokens)


def read_recovery_table(tokens: Tokens) -> RecoveryTable:
    """`{ {"old"} : {"new"}, "HloModule …" }`."""
    from hlo_cli.syntax.values import origin

    return origin.read_recovery_table(tokens)


def read_debug_attributes(tokens: Tokens) -> tuple[DebuggedArray, ...]:
    """`{ {"a" {0}}:({log_mode=default}) }`."""
    from hlo_cli.syntax.values import origin

    return origin.read_debug_attributes(tokens)


def read_statistics(tokens: Tokens) -> StatisticsViz:
    """`{visualizing_index=0,name=1.5}`."""
    from hlo_cli.syntax.values import origin

    return origin.read_statistics(tokens)


def read_result_accuracy(tokens: Tokens) -> ResultAccuracy:
    """`{mode=highest}`."""
    from hlo_cli.syntax.values import origin

    return origin.read_result_accuracy(tokens)


def read_domain(tokens: Tokens) -> Domain:
    """`{kind="sharding", entry={…}, exit={…}}`."""
    found = _DOMAIN(tokens)
    return Domain(found["entry"], found["exit"])  # type: ignore[arg-type]


def _read_kind(tokens: Tokens) -> str:
    start, end = tokens.start, tokens.end
    kind = values.read_string(tokens)
    if kind != "sharding":
        tokens.fail("domain kind must be sharding", start, end)
    return kind


_DOMAIN: Final = values.fields(
    {"kind": _read_kind, "entry": read_sharding, "exit": read_sharding}, required=("kind", "entry", "exit")
)
GRAMMARS: Final = MappingProxyType[Kind, ValueReader](
    {
        Kind.BOOL: values.read_bool,
        Kind.BOOL_IF_GIVEN: values.read_bool,
        Kind.BOOLS: values.read_bools,
        Kind.BOOLS_OR_BOOL: values.read_bools_or_bool,
        Kind.INT: values.read_int,
        Kind.INT32: values.read_int32,
        Kind.INTS: values.read_ints,
        Kind.INT_LISTS: values.read_int_lists,
        Kind.FLOAT: values.read_float,
        Kind.STRING: values.read_string,
        Kind.STRING_OR_JSON: metadata.read_backend_config,
        Kind.SHAPE: values.take_shape,
        Kind.SHAPES: values.read_shapes,
        Kind.LITERAL: read_shaped_literal,
        Kind.ALGORITHM: operation_values.ALGORITHM,
        Kind.ALIASING: operation_values.read_aliasing,
        Kind.API_VERSION: operation_values.API_VERSION,
        Kind.BLOCK_SCALING: operation_values.read_block_scaling,
        Kind.BUFFER_DONORS: operation_values.read_buffer_donors,
        Kind.COMPUTATION_LAYOUT: metadata.read_computation_layout,
        Kind.CONVOLUTION_KIND: operation_values.CONVOLUTION_KIND,
        Kind.DEBUG_ATTRIBUTES: read_debug_attributes,
        Kind.DIM_LABELS: operation_values.read_dim_labels,
        Kind.DIRECTION: operation_values.DIRECTION,
        Kind.DISTRIBUTION: operation_values.DISTRIBUTION,
        Kind.DOMAIN: read_domain,
        Kind.FFT_TYPE: operation_values.FFT_TYPE,
        Kind.FRONTEND_ATTRIBUTES: metadata.read_frontend_attributes,
        Kind.FUSION_KIND: operation_values.FUSION_KIND,
        Kind.GROUP_MODE: operation_values.GROUP_MODE,
        Kind.METADATA: metadata.read_metadata,
        Kind.OPERAND_ALIASING: operation_values.read_operand_aliasing,
        Kind.ORDER: operation_values.ORDER,
        Kind.ORIGIN: read_origin,
        Kind.PADDING: operation_values.read_padding,
        Kind.PADDING_TYPE: operation_values.PADDING_TYPE,
        Kind.PRECISIONS: operation_values.read_precisions,
        Kind.RANDOM_ALGORITHM: operation_values.RANDOM_ALGORITHM,
        Kind.RECOVERY_TABLE: read_recovery_table,
        Kind.REPLICA_GROUPS: read_replica_groups,
        Kind.RESULT_ACCURACY: read_result_accuracy,
        Kind.SCHEDULE: operation_values.SCHEDULE,
        Kind.SHARDING: read_sharding,
        Kind.SHUFFLE_MODE: operation_values.SHUFFLE_MODE,
        Kind.SLICE: operation_values.read_slice,
        Kind.SPARSITY: operation_values.read_sparsity,
        Kind.STATISTICS: read_statistics,
        Kind.TRANSPOSE: operation_values.TRANSPOSE,
        Kind.TYPE: operation_values.TYPE,
        Kind.WINDOW: operation_values.read_window,
    }
)
"""Names of computations and instructions are read where the defined ones are known."""
