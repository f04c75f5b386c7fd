"""Which function reads the value of which kind of attribute, where the value needs nothing but itself to be read."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from hlo_cli.syntax.attributes import Kind
from hlo_cli.syntax.strict import metadata, values, words
from hlo_cli.syntax.strict.literals import read_shaped_literal
from hlo_cli.syntax.strict.sharding import read_domain, read_replica_groups, read_sharding
from hlo_cli.syntax.strict.values import Reader

GRAMMARS: Final = MappingProxyType[Kind, Reader](
    {
        Kind.BOOL: values.read_bool,
        Kind.BOOLS: values.read_bools,
        Kind.BOOLS_OR_BOOL: values.read_bools_or_bool,
        Kind.INT: values.read_int,
        Kind.INT32: values.read_int32,
        Kind.INTS: values.read_ints,
        Kind.INT_LISTS: values.read_int_lists,
        Kind.FLOAT: values.read_float,
        Kind.STRING: values.read_string,
        Kind.STRING_OR_JSON: values.read_string_or_json,
        Kind.SHAPE: values.take_shape,
        Kind.SHAPES: values.read_shapes,
        Kind.LITERAL: read_shaped_literal,
        Kind.ALGORITHM: words.ALGORITHM,
        Kind.ALIASING: words.read_aliasing,
        Kind.API_VERSION: words.API_VERSION,
        Kind.BUFFER_DONORS: words.read_buffer_donors,
        Kind.COMPUTATION_LAYOUT: metadata.read_computation_layout,
        Kind.CONVOLUTION_KIND: words.CONVOLUTION_KIND,
        Kind.DEBUG_ATTRIBUTES: metadata.read_debug_attributes,
        Kind.DIM_LABELS: words.read_dim_labels,
        Kind.DIRECTION: words.DIRECTION,
        Kind.DISTRIBUTION: words.DISTRIBUTION,
        Kind.DOMAIN: read_domain,
        Kind.FFT_TYPE: words.FFT_TYPE,
        Kind.FRONTEND_ATTRIBUTES: metadata.read_frontend_attributes,
        Kind.FUSION_KIND: words.FUSION_KIND,
        Kind.GROUP_MODE: words.GROUP_MODE,
        Kind.METADATA: metadata.read_metadata,
        Kind.OPERAND_ALIASING: words.read_operand_aliasing,
        Kind.ORDER: words.ORDER,
        Kind.ORIGIN: metadata.read_origin,
        Kind.PADDING: words.read_padding,
        Kind.PADDING_TYPE: words.PADDING_TYPE,
        Kind.PRECISIONS: words.read_precisions,
        Kind.RANDOM_ALGORITHM: words.RANDOM_ALGORITHM,
        Kind.REPLICA_GROUPS: read_replica_groups,
        Kind.RESULT_ACCURACY: words.read_result_accuracy,
        Kind.SCHEDULE: words.SCHEDULE,
        Kind.SHARDING: read_sharding,
        Kind.SLICE: words.read_slice,
        Kind.SPARSITY: words.SPARSITY,
        Kind.STATISTICS: words.read_statistics,
        Kind.TRANSPOSE: words.TRANSPOSE,
        Kind.TYPE: words.TYPE,
        Kind.WINDOW: words.read_window,
    }
)
"""The rest, which names computations, instructions or holds a module, is read where those are known."""
