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
    "concatenate": "the dimension along which they are joined",
    "get-dimension-size set-dimension-size": "whose size",
    "reduce": "the dimensions that are reduced away",
    "reverse": "the dimensions that are turned round",
    "scan": "the dimension it runs along",
    "sort": "the dimension along which it sorts",
    "transpose": "which operand dimension each result dimension is",
}
_OPTIONAL_OVER: Final = {
    "broadcast": "where in the result each operand dimension goes",
    "map": "the dimensions it runs over: all of them",
}


def _dimensions() -> Iterator[AttributeRow]:
    """The attribute `dimensions`, which differs in meaning between opcodes."""
    for opcodes, meaning in _OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes)
    for opcodes, meaning in _OPTIONAL_OVER.items():
        yield AttributeRow("dimensions", Kind.INTS, meaning, opcodes, always=True)
    worked_on = "the dimensions that it works on"
    yield AttributeRow("dimensions", Kind.INTS, worked_on, "ragged-all-to-all", is_forgotten=True)
    yield AttributeRow("dimensions", Kind.INTS, worked_on)


def _batching(message: str, opcode: str, array: str, names: tuple[str, str]) -> Iterator[AttributeRow]:
    """Batch dimensions of an array, and of the indices into it."""
    meanings = (f"{array} dimensions that go with batch dimensions of the indices", "batch dimensions of the indices")
    for name, meaning in zip(names, meanings, strict=True):
        yield AttributeRow(name, Kind.INTS, meaning, opcode, proto_field=message + name)


INDEXING: Final = (
    *_dimensions(),
    AttributeRow(
        "iota_dimension", Kind.INT, "the dimension along which it counts", label="dimension", proto_field="dimensions"
    ),
    AttributeRow(
        "inferred_dimension",
        Kind.INT,
        "the result dimension whose size followed from the others",
        proto_field="dimensions",
        always=True,
    ),
    AttributeRow("k", Kind.INT, "how many are wanted"),
    AttributeRow("largest", Kind.BOOL, "whether the largest are wanted, else the smallest", unsaid=True),
    AttributeRow("is_stable", Kind.BOOL, "whether equal elements keep their sequence"),
    AttributeRow("num_carries", Kind.INT, "how many values are carried from step to step"),
    AttributeRow("is_reverse", Kind.BOOL, "whether it runs from the end"),
    AttributeRow(
        "is_associative",
        Kind.BOOL,
        "whether the steps may be grouped in any way",
        usual=("unspecified",),
        unsaid="false",
    ),
    AttributeRow("slice", Kind.SLICE, "start:limit:stride of each dimension", proto_field="slice_dimensions"),
    AttributeRow("dynamic_slice_sizes", Kind.INTS, "the sizes of the block", label="block"),
    AttributeRow(
        "padding",
        Kind.PADDING,
        "low_high of each dimension, a third number between the elements",
        proto_field="padding_config",
    ),
    AttributeRow(
        "offset_dims", Kind.INTS, "result dimensions that run within a slice", proto_field=f"{_GATHER}offset_dims"
    ),
    AttributeRow(
        "collapsed_slice_dims",
        Kind.INTS,
        "slice dimensions of size 1 that the result leaves out",
        proto_field=f"{_GATHER}collapsed_slice_dims",
    ),
    AttributeRow(
        "start_index_map",
        Kind.INTS,
        "operand dimensions that an index counts along",
        proto_field=f"{_GATHER}start_index_map",
    ),
    *_batching(_GATHER, "gather", "operand", ("operand_batching_dims", "start_indices_batching_dims")),
    AttributeRow(
        "update_window_dims",
        Kind.INTS,
        "update dimensions that run within a window",
        proto_field=f"{_SCATTER}update_window_dims",
    ),
    AttributeRow(
        "inserted_window_dims",
        Kind.INTS,
        "array dimensions of window size 1 that the updates leave out",
        proto_field=f"{_SCATTER}inserted_window_dims",
    ),
    AttributeRow(
        "scatter_dims_to_operand_dims",
        Kind.INTS,
        "array dimensions that an index counts along",
        proto_field=f"{_SCATTER}scatter_dims_to_operand_dims",
    ),
    *_batching(_SCATTER, "scatter", "array", ("input_batching_dims", "scatter_indices_batching_dims")),
    *(
        AttributeRow(
            "index_vector_dim",
            Kind.INT,
            "the dimension of the indices that holds one place",
            opcode,
            proto_field=f"{message}index_vector_dim",
        )
        for opcode, message in (("gather", _GATHER), ("scatter", _SCATTER))
    ),
    AttributeRow("slice_sizes", Kind.INTS, "the sizes of one slice", proto_field="gather_slice_sizes"),
    AttributeRow("indices_are_sorted", Kind.BOOL, "whether the places are known to rise"),
    AttributeRow("unique_indices", Kind.BOOL, "whether no two updates fall on the same place"),
)
