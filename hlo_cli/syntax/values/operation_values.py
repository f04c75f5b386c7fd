"""How values of attributes are read that need no grammar in pyparsing: metadata, windows, slices, words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from typing import Final

from hlo_cli.ir.attributes import enumerations, value_types
from hlo_cli.ir.attributes.metadata import BackendConfig, FrontendAttributes, Metadata
from hlo_cli.ir.attributes.sharding import CollectiveDeviceList
from hlo_cli.ir.shape import ShapeIndex
from hlo_cli.source import counted, joined_by_or
from hlo_cli.syntax.scanning import tokens as tk
from hlo_cli.syntax.scanning.scanner import beyond_64_bits, int64
from hlo_cli.syntax.scanning.tokens import (
    Tokens,
    fields,
    one_of,
    read_int,
    read_int32,
    read_int_lists,
    read_ints,
    read_list,
    read_shape_index,
    read_string,
    read_string_or_json,
    take_shape,
)

# --- metadata and configurations ---
# Metadata, configurations and other attributes that any instruction or a module may have.
#
# Mirrors `ParseMetadata`, `ParseEntryComputationLayout` and `ParseFrontendAttributes` of xla/hlo/parser/hlo_parser.cc.


_PROFILE_TYPES: Final = range(4)
_KEPT: Final = tuple(field.name for field in fields_of(Metadata))


def read_metadata(tokens: Tokens) -> Metadata:
    """`{op_name="jit(f)/add" source_line=3}`."""
    fields = _METADATA(tokens)
    return Metadata(**{name: fields[name] for name in _KEPT if name in fields})  # type: ignore[arg-type]


def read_metadata_or_list(tokens: Tokens) -> tuple[Metadata, ...]:
    """`{…}` or `{{…}, {…}}`."""
    if tokens.kind == "{" and tokens.peek() == "{":
        return read_list(tokens, read_metadata)
    return (read_metadata(tokens),)


def read_frontend_attributes(tokens: Tokens) -> FrontendAttributes:
    """`{key="text",other={a=1}}`."""
    return FrontendAttributes(tuple(sorted(read_list(tokens, _read_frontend_attribute))))  # as XLA keeps them


def read_backend_config(tokens: Tokens) -> BackendConfig:
    """`{"key":"value"}`, or anything between quotes."""
    return BackendConfig(read_string_or_json(tokens))


def read_computation_layout(tokens: Tokens) -> value_types.ComputationLayout:
    """`{(f32[2]{0})->f32[2]{0}}`."""
    tokens.expect("{", "before the layout of the entry computation")
    tokens.expect("(", "before the parameters")
    parameters = []
    while tokens.kind != ")":
        parameters.append(take_shape(tokens))
        if tokens.kind != ")":
            tokens.expect(",", "between parameters")
    tokens.advance()
    tokens.expect("->", "before the result")
    shape = take_shape(tokens)
    tokens.expect("}", "after the layout of the entry computation")
    return value_types.ComputationLayout(tuple(parameters), shape)


def _read_frontend_attribute(tokens: Tokens) -> tuple[str, str]:
    return tokens.expect(tk.ATTRIBUTE, "in frontend_attributes"), read_string_or_json(tokens)


def _read_profile_types(tokens: Tokens) -> tuple[int, ...]:
    start = tokens.start
    types = read_ints(tokens)
    if any(number not in _PROFILE_TYPES for number in types):
        tokens.fail(f"expected a profile type from 0 to {_PROFILE_TYPES[-1]}", start, tokens.previous_end)
    return types


_METADATA: Final = fields(
    {
        "op_type": read_string,
        "op_name": read_string,
        "source_file": read_string,
        "source_line": read_int32,
        "source_end_line": read_int32,
        "source_column": read_int32,
        "source_end_column": read_int32,
        "profile_type": _read_profile_types,
        "deduplicated_name": read_string,
        "scheduling_name": read_string,
        "stack_frame_id": read_int32,
        "metadata_payload": read_string,
    }
)


# --- values of single operations ---
# The grammars of values that only single operations have: windows, slices, paddings, words.
#
# Mirrors the functions of the same names in xla/hlo/parser/hlo_parser.cc.


_WINDOW_FIELDS: Final = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
ALGORITHM: Final = one_of(enumerations.PrecisionAlgorithm, any_case=True)
API_VERSION: Final = one_of(enumerations.CustomCallApiVersion, any_case=True)
CONVOLUTION_KIND: Final = one_of(enumerations.ConvolutionKind)
DIRECTION: Final = one_of(enumerations.ComparisonDirection)
DISTRIBUTION: Final = one_of(enumerations.RandomDistribution, any_case=True)
FFT_TYPE: Final = one_of(enumerations.FftType)
FUSION_KIND: Final = one_of(enumerations.FusionKind)
GROUP_MODE: Final = one_of(enumerations.CollectiveOpGroupMode)
SHUFFLE_MODE: Final = one_of(enumerations.ShuffleMode)
ORDER: Final = one_of(enumerations.ComparisonOrder)
PADDING_TYPE: Final = one_of(enumerations.PaddingType)
RANDOM_ALGORITHM: Final = one_of(enumerations.RandomAlgorithm, any_case=True)
SCHEDULE: Final = one_of(enumerations.CustomCallSchedule, any_case=True)
TRANSPOSE: Final = one_of(enumerations.Transpose)
TYPE: Final = one_of(enumerations.ComparisonType)
_PRECISION: Final = one_of(enumerations.Precision, any_case=True)


def read_precisions(tokens: Tokens) -> tuple[enumerations.Precision, ...]:
    """`{high, default}`."""
    return read_list(tokens, _PRECISION)


def _read_sizes(tokens: Tokens) -> tuple[int, ...]:
    """`3` or `3x4`."""
    if tokens.kind == tk.INT:
        return (read_int(tokens),)
    return _numbers(tokens, tokens.start, tokens.expect(tk.DXD, "or an integer").split("x"))


def read_padding(tokens: Tokens) -> value_types.PaddingConfig:
    """`0_1` or `0_1x2_3`, with a third number for interior padding."""
    return value_types.PaddingConfig(tuple(value_types.PaddingDimension(*numbers) for numbers in _read_pad(tokens)))


def _read_pad(tokens: Tokens, *, parts: tuple[int, ...] = (2, 3)) -> tuple[tuple[int, ...], ...]:
    start, end = tokens.start, tokens.end
    padding = [_numbers(tokens, start, part.split("_")) for part in tokens.expect(tk.PAD).split("x")]
    if any(len(part) not in parts for part in padding):
        tokens.fail("expected low_high for each dimension", start, end)
    return tuple(padding)


def read_window(tokens: Tokens) -> value_types.Window:
    """`{size=3x3 stride=1x2 pad=0_0x1_1}`: each field at most once, all as long as `size`."""
    start = tokens.start
    tokens.expect("{", "before the window")
    fields: dict[str, tuple[tuple[int, ...], ...]] = {}
    while tokens.kind != "}":
        at, name, end = tokens.start, tokens.expect(tk.ATTRIBUTE, "in the window"), tokens.previous_end
        if name not in _WINDOW_FIELDS:
            tokens.fail(f"unknown window field '{name}'; expected one of {joined_by_or(_WINDOW_FIELDS)}", at, end)
        if name in fields:
            tokens.fail(f"duplicate window field {name}", at, end)
        is_pad = name == "pad"
        fields[name] = _read_pad(tokens, parts=(2,)) if is_pad else tuple((size,) for size in _read_sizes(tokens))
    rank = len(fields.get("size", ()))
    for name, numbers in fields.items():
        if len(numbers) != rank and not (name == "rhs_reversal" and len(numbers) > rank):
            tokens.fail(f"{name} has {counted(len(numbers), 'dimensions')}, but size has {rank}", start, tokens.end)
    tokens.advance()
    return _window(fields, rank)


def _window(fields: Mapping[str, tuple[tuple[int, ...], ...]], rank: int) -> value_types.Window:
    ones, none = ((1,),) * rank, ((0, 0),) * rank
    columns = zip(
        fields.get("size", ()),
        fields.get("stride", ones),
        fields.get("pad", none),
        fields.get("lhs_dilate", ones),
        fields.get("rhs_dilate", ones),
        fields.get("rhs_reversal", none)[:rank],
        strict=True,
    )
    return value_types.Window(
        tuple(
            value_types.WindowDimension(s[0], t[0], p[0], p[1], b[0], w[0], window_reversal=r[0] == 1)
            for s, t, p, b, w, r in columns
        )
    )


def read_dim_labels(tokens: Tokens) -> value_types.ConvolutionDimensionNumbers:
    """`b01f_01io->b01f`: each dimension once, with the same number of spatial ones in each part."""
    if tokens.kind != tk.DIM_LABELS:
        tokens.fail("expected dimension labels, such as b0f_0io->b0f,")
    inputs, _, rest = tokens.text.partition("_")
    kernel, _, output = rest.partition("->")
    numbers = [_read_labels(tokens, *part) for part in ((inputs, "bf"), (kernel, "io"), (output, "bf"))]
    if len({len(spatial) for *_, spatial in numbers}) > 1:
        tokens.fail("input, kernel, and output have different spatial dimensions", tokens.start, tokens.end)
    tokens.advance()
    return value_types.ConvolutionDimensionNumbers(*numbers[0], *numbers[1], *numbers[2])


def _read_labels(tokens: Tokens, part: str, letters: str) -> tuple[int, int, tuple[int, ...]]:
    """The positions of the two letters, -1 if one is missing, and of the spatial dimensions by number."""
    labels = part.replace("?", "")
    if len(set(labels)) != len(labels):
        tokens.fail(f"duplicate dimension in {part}", tokens.start, tokens.end)
    spatial = [label for label in labels if label not in letters]
    if any(not label.isdecimal() or int(label) >= max(len(part), 1) for label in spatial):
        message = f"{part} supports only {letters[0]}, {letters[1]}, ?, and 0 to {len(part) - 1}"
        tokens.fail(message, tokens.start, tokens.end)
    return part.find(letters[0]), part.find(letters[1]), tuple(part.index(label) for label in sorted(spatial))


def read_slice(tokens: Tokens) -> value_types.Slice:
    """`{[0:4], [1:9:2]}`."""
    return value_types.Slice(read_list(tokens, _read_range))


def _numbers(tokens: Tokens, start: int, parts: Sequence[str]) -> tuple[int, ...]:
    """The integers in parts of the token that began at `start` and was just read."""
    numbers = []
    for part in parts:
        if (number := int64(part)) is None:
            tokens.fail(beyond_64_bits(part), start, tokens.previous_end)
        numbers.append(number)
    return tuple(numbers)


def _read_range(tokens: Tokens) -> value_types.SliceDimension:
    start = tokens.start
    numbers = read_list(tokens, read_int, "[]", ":")
    if len(numbers) not in (2, 3):
        tokens.fail("expected [start:limit] or [start:limit:stride]", start, tokens.previous_end)
    return value_types.SliceDimension(*numbers)


def read_device_list(tokens: Tokens) -> CollectiveDeviceList:
    """`{{0,1},{2,3}}`."""
    return CollectiveDeviceList(read_int_lists(tokens))


def read_aliasing(tokens: Tokens) -> tuple[value_types.Alias, ...]:
    """`{ {0}: (1, {}, may-alias) }`."""
    return tuple(value_types.Alias(*entry) for entry in _read_entries(tokens, kinds=("may-alias", "must-alias")))


def read_operand_aliasing(tokens: Tokens) -> tuple[value_types.OutputOperandAlias, ...]:
    """`{{0}: (1, {})}`."""
    return tuple(value_types.OutputOperandAlias(*entry[:3]) for entry in _read_entries(tokens, kinds=()))


def read_buffer_donors(tokens: Tokens) -> tuple[value_types.BufferDonor, ...]:
    """`{ (0, {1}) }`."""
    tokens.expect("{", "before the buffer donors")
    donors = []
    while tokens.kind != "}":
        number, index, _ = _read_place(tokens, ())
        donors.append(value_types.BufferDonor(number, index))
        if not tokens.accept(","):
            break
    tokens.expect("}", "after the buffer donors")
    return tuple(donors)


def _read_entries(tokens: Tokens, *, kinds: tuple[str, ...]) -> list[tuple[ShapeIndex, int, ShapeIndex, str]]:
    tokens.expect("{", "before the aliases")
    entries = []
    while tokens.kind != "}":
        output = read_shape_index(tokens)
        tokens.expect(":", "after the index of the output")
        entries.append((output, *_read_place(tokens, kinds)))
        if not tokens.accept(","):
            break
    tokens.expect("}", "after the aliases")
    return entries


def _read_place(tokens: Tokens, kinds: tuple[str, ...]) -> tuple[int, ShapeIndex, str]:
    """The number of a parameter or operand, the index in it, and the kind of sharing: by default, the first kind."""
    tokens.expect("(", "before a parameter's number and index")
    number = read_int(tokens)
    tokens.expect(",", "after the number")
    index, kind = read_shape_index(tokens), kinds[0] if kinds else ""
    if kinds and tokens.accept(","):
        kind = tokens.text
        if tokens.kind not in (tk.IDENT, tk.NAME) or kind not in kinds:
            tokens.fail(f"expected {joined_by_or(kinds)}")
        tokens.advance()
    tokens.expect(")", "after the index")
    return number, index, kind


def read_sparsity(tokens: Tokens) -> value_types.SparsityConfig:
    """`{lhs={sparsity=2x4 dimension=1 stride=1 idx=2}}`."""

    sides = _SPARSITY(tokens)
    return value_types.SparsityConfig(
        *(side if isinstance(side := sides.get(name), value_types.TensorSparsity) else None for name in ("lhs", "rhs"))
    )


def read_block_scaling(tokens: Tokens) -> value_types.BlockScalingConfig:
    """`{lhs={scale_idx=2 zero_idx=3 strides=1x32 steps=1x1}}`."""

    sides = _BLOCK_SCALING(tokens)
    return value_types.BlockScalingConfig(
        *(
            side if isinstance(side := sides.get(name), value_types.TensorBlockScaling) else None
            for name in ("lhs", "rhs")
        )
    )


def _read_tensor_block_scaling(tokens: Tokens) -> value_types.TensorBlockScaling:

    return value_types.TensorBlockScaling(**_TENSOR_BLOCK_SCALING(tokens))  # type: ignore[arg-type]


def _read_tensor_sparsity(tokens: Tokens) -> value_types.TensorSparsity:

    fields = _TENSOR_SPARSITY(tokens)
    block = fields.pop("sparsity", (0, 0))
    numbers = {name: n for name, n in fields.items() if isinstance(n, int)}
    return value_types.TensorSparsity(*(block if isinstance(block, tuple) else ()), **numbers)


def _read_block(tokens: Tokens) -> tuple[int, ...]:
    start, end = tokens.start, tokens.end
    sizes = _read_sizes(tokens)
    if len(sizes) != 2:
        tokens.fail("expected two sizes, such as 2x4", start, end)
    return sizes


_TENSOR_SPARSITY: Final = fields(
    {"sparsity": _read_block, "dimension": read_int, "stride": read_int, "idx": read_int}, loose=True
)
_TENSOR_BLOCK_SCALING: Final = fields(
    {"scale_idx": read_int, "zero_idx": read_int, "strides": _read_sizes, "steps": _read_sizes}, loose=True
)
_BLOCK_SCALING: Final = fields({"lhs": _read_tensor_block_scaling, "rhs": _read_tensor_block_scaling}, loose=True)
_SPARSITY: Final = fields({"lhs": _read_tensor_sparsity, "rhs": _read_tensor_sparsity}, loose=True)
