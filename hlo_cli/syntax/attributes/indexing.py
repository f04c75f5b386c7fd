"""The attributes of instructions that move and select elements: slices, gathers, scatters, sorts, scans, reductions.

Mirrors `PrintExtraAttributesImpl` of the classes in xla/hlo/ir/hlo_instructions.cc, and has their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.syntax.attributes.row import AttributeRow, Kind

_GATHER: Final = "gather_dimension_numbers."
_SCATTER: Final = "scatter_dimension_numbers."
_OVER: Final = {
    "concatenate": "dimension along which arrays are concatenated",
    "get-dimension-size": "dimension whose size is returned",
    "set-dimension-size": "dimension whose size is set",
    "reduce": "dimensions that are reduced",
    "reverse": "dimensions that are reversed",
    "shuffle": "dimensions that are rotated",
    "scan": "dimension along which the scan runs",
    "sort": "dimension along which elements are sorted",
    "transpose": "operand dimension of each result dimension",
}
_OPTIONAL_OVER: Final = {
    "broadcast": "result dimension of each operand dimension",
    "map": "dimensions of the map: all",
}


def _dimensions() -> Iterator[AttributeRow]:
    """The attribute `dimensions`, which differs in meaning between opcodes."""
    for opcodes, meaning in _OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes)
    for opcodes, meaning in _OPTIONAL_OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes, always=True)
    yield AttributeRow("dimensions", Kind.INTS, "dimensions of the operation", "ragged-all-to-all", is_forgotten=True)
    yield AttributeRow("dimensions", Kind.INTS, "dimensions of the operation")


def _batching(message: str, opcode: str, names: tuple[str, str]) -> Iterator[AttributeRow]:
    """Batching dimensions of an array and of the indices into it."""
    meanings = (
        "operand dimensions that are paired with index batching dimensions",
        "index dimensions that are paired with operand batching dimensions",
    )
    for name, meaning in zip(names, meanings, strict=True):
        yield AttributeRow(name, Kind.INTS, meaning, opcode, proto_field=message + name)


INDEXING: Final = (
    *_dimensions(),
    AttributeRow(
        "mode",
        Kind.SHUFFLE_MODE,
        "order of the elements",
        "shuffle",
        words={"rotate": "elements move along the dimension, and around at its end"},
        proto_field="shuffle_mode.rotate",
    ),
    AttributeRow(
        "shifts",
        Kind.INTS,
        "number of places that each dimension is rotated by",
        proto_field="shuffle_mode.rotate.shifts",
        always=True,
    ),
    AttributeRow(
        "iota_dimension",
        Kind.INT,
        "dimension along which the values increase",
        label="dimension",
        proto_field="dimensions",
    ),
    AttributeRow(
        "inferred_dimension",
        Kind.INT,
        "result dimension whose size was inferred",
        proto_field="dimensions",
        always=True,
    ),
    AttributeRow("k", Kind.INT, "number of elements to return"),
    AttributeRow(
        "largest",
        Kind.BOOL,
        "largest or smallest elements",
        words={"true": "largest elements", "false": "smallest elements"},
        unsaid=True,
    ),
    AttributeRow(
        "is_stable",
        Kind.BOOL,
        "whether equal elements keep their order",
        words={"true": "equal elements keep their order", "false": "equal elements may change their order"},
    ),
    AttributeRow(
        "is_stable",
        Kind.BOOL_IF_GIVEN,  # XLA prints false too, but before jaxlib 0.11 has no such attribute
        "whether equal elements keep their order",
        "topk",
        words={"true": "equal elements keep their order", "false": "equal elements may change their order"},
        unsaid=True,
    ),
    AttributeRow("num_carries", Kind.INT, "number of carried values"),
    AttributeRow(
        "is_reverse", Kind.BOOL, "direction of the scan", words={"true": "runs in reverse", "false": "runs forward"}
    ),
    AttributeRow(
        "is_associative",
        Kind.BOOL,
        "whether the scan is associative",
        words={"true": "the scan is associative", "false": "the scan is not associative"},
        usual=("unspecified",),
        unsaid="false",
    ),
    AttributeRow("slice", Kind.SLICE, "start:limit:stride of each dimension", proto_field="slice_dimensions"),
    AttributeRow("dynamic_slice_sizes", Kind.INTS, "size of the slice in each dimension", label="slice sizes"),
    AttributeRow(
        "padding",
        Kind.PADDING,
        "low_high of each dimension; a third number is interior padding",
        proto_field="padding_config",
    ),
    AttributeRow("offset_dims", Kind.INTS, "result dimensions within a slice", proto_field=f"{_GATHER}offset_dims"),
    AttributeRow(
        "collapsed_slice_dims",
        Kind.INTS,
        "slice dimensions of size 1 dropped from the result",
        proto_field=f"{_GATHER}collapsed_slice_dims",
    ),
    AttributeRow(
        "start_index_map",
        Kind.INTS,
        "operand dimension of each index component",
        proto_field=f"{_GATHER}start_index_map",
    ),
    *_batching(_GATHER, "gather", ("operand_batching_dims", "start_indices_batching_dims")),
    AttributeRow(
        "update_window_dims",
        Kind.INTS,
        "update dimensions within a window",
        proto_field=f"{_SCATTER}update_window_dims",
    ),
    AttributeRow(
        "inserted_window_dims",
        Kind.INTS,
        "window dimensions of size 1 dropped from the updates",
        proto_field=f"{_SCATTER}inserted_window_dims",
    ),
    AttributeRow(
        "scatter_dims_to_operand_dims",
        Kind.INTS,
        "operand dimension of each index component",
        proto_field=f"{_SCATTER}scatter_dims_to_operand_dims",
    ),
    *_batching(_SCATTER, "scatter", ("input_batching_dims", "scatter_indices_batching_dims")),
    *(
        AttributeRow(
            "index_vector_dim",
            Kind.INT,
            "dimension of the index vectors",
            opcode,
            proto_field=f"{message}index_vector_dim",
        )
        for opcode, message in (("gather", _GATHER), ("scatter", _SCATTER))
    ),
    AttributeRow("slice_sizes", Kind.INTS, "size of a slice in each dimension", proto_field="gather_slice_sizes"),
    AttributeRow(
        "indices_are_sorted", Kind.BOOL, "whether the indices are sorted", words={"true": "the indices are sorted"}
    ),
    AttributeRow(
        "unique_indices", Kind.BOOL, "whether the indices are unique", words={"true": "the indices are unique"}
    ),
)
