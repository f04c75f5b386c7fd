"""Which StableHLO a portable artifact holds: VHLO, the versioned form that is serialized, as text in StableHLO's form.

VHLO has an operation for each version of one of StableHLO, with all its attributes and types in forms of its own, which
never change. The text is MLIR's generic form, which the reader of StableHLO takes.

Mirrors VhloBytecode.cpp, VhloOps.td, VhloEnums.td, and VhloLegalizeToStablehlo.cpp of openxla/stablehlo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from hlo_cli.mlir.bytecode import read_bytecode
from hlo_cli.mlir.bytecode_table import Decoder, ForeignCodes, Reader, read_dictionary
from hlo_cli.mlir.mlir_operations import Block, Operation, Value, generic_text
from hlo_cli.mlir.mlir_values import (
    DYNAMIC,
    ArrayType,
    Attribute,
    ComplexType,
    DenseElements,
    FloatAttribute,
    FunctionType,
    IntegerAttribute,
    IntegerType,
    ListAttribute,
    NamedType,
    StringAttribute,
    SymbolAttribute,
    TextAttribute,
    TextType,
    TupleType,
    Type,
    TypeAttribute,
    UnitAttribute,
    quoted,
    wrapped,
)
from hlo_cli.source import HloError


def stablehlo_text(bytecode: bytes) -> str:
    """The program of a portable artifact as text of StableHLO, with locations.

    HloError (BytecodeError) with the offset if the bytes cannot be read, or the name of an operation that is unknown.
    """
    program = read_bytecode(bytecode, {"vhlo": ForeignCodes(_ATTRIBUTES, _TYPES), "sdy": ForeignCodes(_SHARDY, {})})
    _drop_casts(program.root)
    for operation in program.root.walk():
        _convert(operation)
    return generic_text(program.root, locations=True)


_CAST: Final = "builtin.unrealized_conversion_cast"
"""Between operations of VHLO and those of Shardy, whose types differ in VHLO alone."""


def _drop_casts(root: Operation) -> None:
    """Makes operations take what is cast in place of the cast."""
    given: dict[Value, Value] = {}
    for operation in root.walk():
        operation.operands = [given.get(value, value) for value in operation.operands]
        if operation.name == _CAST and len(operation.results) == len(operation.operands):
            given.update(zip(operation.results, operation.operands, strict=True))
    for operation in root.walk():
        for block in (block for region in operation.regions for block in region.blocks):
            block.operations = [each for each in block.operations if each.name != _CAST]


# --- operations ---

_VERSIONED: Final = re.compile(r"vhlo\.(?P<kind>\w+?)_v(?P<version>\d{1,6})")
_ACCURATE: Final = (
    "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh".split()
)
"""Functions that have an accuracy in their second version."""
_CONVOLUTION: Final = (
    "batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions "
    "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
    "output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation "
    "window_reversal window_strides"
)
_GATHER: Final = "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims"
_DOT: Final = "lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions"
# A set of properties lists attributes in the order of their names, so a version with another set has a row of its own.
_PROPERTIES: Final[Mapping[str, Sequence[str]]] = {
    kind: names.split()
    for kind, names in {
        **dict.fromkeys([f"{each}_v2" for each in _ACCURATE], "result_accuracy"),
        "all_gather": "all_gather_dim channel_id replica_groups use_global_device_ids",
        "all_reduce": "channel_id replica_groups use_global_device_ids",
        "all_to_all": "channel_id concat_dimension replica_groups split_count split_dimension",
        "batch_norm_grad": "epsilon feature_index",
        "batch_norm_inference": "epsilon feature_index",
        "batch_norm_training": "epsilon feature_index",
        "broadcast": "broadcast_sizes",
        "broadcast_in_dim": "broadcast_dimensions",
        "call": "callee",
        "cholesky": "lower",
        "collective_broadcast": "channel_id replica_groups",
        "collective_permute": "channel_id source_target_pairs",
        "compare": "compare_type comparison_direction",
        "composite": "composite_attributes decomposition name version",
        "concatenate": "dimension",
        "constant": "value",
        "convolution": _CONVOLUTION,
        "cross-replica-sum": "replica_groups",
        "custom_call": "api_version backend_config call_target_name called_computations has_side_effect "
        "operand_layouts output_operand_aliases result_layouts",
        "dot": "precision_config",
        "dot_general_v1": f"{_DOT} rhs_contracting_dimensions",
        "dot_general": "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
        "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config "
        "rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type",
        "dynamic_broadcast_in_dim": "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions",
        "dynamic_conv_v1": _CONVOLUTION,
        "dynamic_conv": _CONVOLUTION.replace("padding ", ""),
        "dynamic_gather_v1": f"{_GATHER} start_index_map",
        "dynamic_gather": f"{_GATHER} operand_batching_dims start_index_map start_indices_batching_dims",
        "dynamic_iota": "iota_dimension",
        "dynamic_slice": "slice_sizes",
        "einsum": "einsum_config",
        "fft": "fft_length fft_type",
        "func": "arg_attrs function_type res_attrs sym_name sym_visibility",
        "gather_v1": f"{_GATHER} slice_sizes start_index_map",
        "gather": f"{_GATHER} operand_batching_dims slice_sizes start_index_map start_indices_batching_dims",
        "get_dimension_size": "dimension",
        "get_tuple_element": "index",
        "infeed": "infeed_config layout",
        "iota": "iota_dimension",
        "map": "dimensions",
        "outfeed": "outfeed_config",
        "pad": "edge_padding_high edge_padding_low interior_padding",
        "recv_v1": "channel_id channel_type is_host_transfer",
        "recv": "channel_id channel_type is_host_transfer source_target_pairs",
        "reduce": "dimensions",
        "reduce_precision": "exponent_bits mantissa_bits",
        "reduce_scatter": "channel_id replica_groups scatter_dimension use_global_device_ids",
        "reduce_window": "base_dilations padding window_dilations window_dimensions window_strides",
        "reverse": "dimensions",
        "rng": "rng_distribution",
        "rng_bit_generator": "rng_algorithm",
        "scatter_v1": "index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims "
        "unique_indices update_window_dims",
        "scatter": "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims "
        "scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices update_window_dims",
        "select_and_scatter": "padding window_dimensions window_strides",
        "send_v1": "channel_id channel_type is_host_transfer",
        "send": "channel_id channel_type is_host_transfer source_target_pairs",
        "set_dimension_size": "dimension",
        "slice": "limit_indices start_indices strides",
        "sort": "dimension is_stable",
        "torch_index_select": "batch_dims dim",
        "transpose": "permutation",
        "triangular_solve": "left_side lower transpose_a unit_diagonal",
        "unary_einsum": "einsum_config",
    }.items()
}
"""The attributes of each operation of VHLO, or of one version of it; those that are missing have none."""
_OF_SHARDY: Final = {
    "sdy.mesh": ("mesh", "sym_name"),
    "sdy.sharding_constraint": ("sharding",),
    "sdy.reshard": ("sharding",),
    "sdy.manual_computation": ("in_shardings", "manual_axes", "out_shardings"),
    "sdy.sharding_group": ("group_id",),
    "sdy.propagation_barrier": ("allowed_direction",),
}
"""The attributes in the properties of Shardy's operations, which are not of VHLO (sdy/dialect/sdy/ir/ops.td)."""
_OF_FUNCTIONS: Final = {"func": "func.func", "call": "func.call", "return": "func.return"}
"""Operations of VHLO that are of the dialect `func`; a return within a region is of StableHLO."""


def _convert(operation: Operation) -> None:
    """Turns an operation of VHLO into the one of StableHLO or `func` that it is a version of."""
    if operation.name == "builtin.module":
        operation.set_attributes({**operation.attributes, **_optional(operation, ("sym_name", "sym_visibility"))})
    elif operation.name in _OF_SHARDY:
        operation.set_attributes({**operation.attributes, **_properties(operation, _OF_SHARDY[operation.name])})
    match = _VERSIONED.fullmatch(operation.name)
    if match is None:
        return
    kind, version = match["kind"], match["version"]
    names = _PROPERTIES.get(f"{kind}_v{version}", _PROPERTIES.get(kind, ()))
    found = {**operation.attributes, **_properties(operation, names)}
    attributes = {name: value for name, value in _renamed(kind, found) if not _is_absent(value)}
    operation.set_attributes(attributes)
    operation.name = _OF_FUNCTIONS.get(kind, f"stablehlo.{kind}")
    if kind == "return" and not _is_function(operation.block):
        operation.name = "stablehlo.return"


def _is_function(block: Block | None) -> bool:
    """Whether a block is the body of a function, whose return is another operation than that of a region."""
    parent = block.parent.parent if block is not None else None
    return parent is not None and parent.name == _OF_FUNCTIONS["func"]


def _properties(operation: Operation, names: Sequence[str]) -> dict[str, Attribute]:
    """The attributes in the properties of an operation, which are their numbers."""
    if operation.properties is None:
        return {}
    reader = Reader(operation.properties, table=operation.table)
    numbers = [reader.number_below(operation.table.attribute_count, "attribute") for _ in names]
    if reader.at != reader.end:
        raise reader.error(f"{operation.name} has more than {len(names)} attributes", operation.at)
    return {name: operation.table.attribute(number) for name, number in zip(names, numbers, strict=True)}


def _optional(operation: Operation, names: Sequence[str]) -> dict[str, Attribute]:
    """The attributes in properties that may be missing: their numbers with a flag."""
    found: dict[str, Attribute] = {}
    if operation.properties is not None:
        reader = Reader(operation.properties, table=operation.table)
        for name in names:
            number, is_there = reader.flagged()
            if is_there and number < operation.table.attribute_count:
                found[name] = operation.table.attribute(number)
    return found


def _is_absent(value: Attribute) -> bool:
    """Whether an attribute stands for one that is not there."""
    return (isinstance(value, TypeAttribute) and str(value.type) == "none") or value in _ABSENT


_ABSENT: Final = (TextAttribute("NOTYPE"), StringAttribute(""))


# --- attributes of StableHLO ---

_COLLECTIVES: Final = "all_gather all_reduce all_to_all collective_broadcast collective_permute reduce_scatter".split()
_ENUMERATED: Final = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "fft_type": "fft_type",
    "rng_distribution": "rng_distribution",
    "rng_algorithm": "rng_algorithm",
    "transpose_a": "transpose",
}
"""Attributes that are words of an enumeration, and the enumeration's name in StableHLO."""
_FIELDS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    **dict.fromkeys(
        ("gather", "dynamic_gather"),
        (
            "dimension_numbers",
            "gather",
            {
                "offset_dims": "offset_dims",
                "collapsed_slice_dims": "collapsed_slice_dims",
                "operand_batching_dims": "operand_batching_dims",
                "start_indices_batching_dims": "start_indices_batching_dims",
                "start_index_map": "start_index_map",
                "index_vector_dim": "index_vector_dim",
            },
        ),
    ),
    "scatter": (
        "scatter_dimension_numbers",
        "scatter",
        {
            "update_window_dims": "update_window_dims",
            "inserted_window_dims": "inserted_window_dims",
            "input_batching_dims": "input_batching_dims",
            "scatter_indices_batching_dims": "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims": "scatter_dims_to_operand_dims",
            "index_vector_dim": "index_vector_dim",
        },
    ),
    "dot_general": (
        "dot_dimension_numbers",
        "dot",
        {
            "lhs_batching_dimensions": "lhs_batching_dimensions",
            "rhs_batching_dimensions": "rhs_batching_dimensions",
            "lhs_contracting_dimensions": "lhs_contracting_dimensions",
            "rhs_contracting_dimensions": "rhs_contracting_dimensions",
        },
    ),
}
"""Dimension numbers, which are single attributes in VHLO: the attribute of StableHLO, its name, and its fields."""
_ALGORITHM: Final = (
    "lhs_precision_type rhs_precision_type accumulation_type lhs_component_count rhs_component_count "
    "num_primitive_operations allow_imprecise_accumulation"
).split()


def _renamed(kind: str, given: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
    """The attributes of an operation in the form of StableHLO."""
    rest = dict(given)
    if kind in _FIELDS:
        name, form, fields = _FIELDS[kind]
        parts = [f"{field} = {_plain(rest.pop(own))}" for own, field in fields.items() if own in rest]
        yield name, TextAttribute(f"#stablehlo.{form}<{', '.join(parts)}>")
    if kind in ("convolution", "dynamic_conv") and "input_batch_dimension" in rest:
        yield "dimension_numbers", _convolution(rest)
    if "accumulation_type" in rest:
        algorithm = {name: rest.pop(name) for name in _ALGORITHM if name in rest}
        if not _is_absent(algorithm["accumulation_type"]):
            parts = [f"{name} = {_plain(value)}" for name, value in algorithm.items()]
            yield "algorithm", TextAttribute(f"#stablehlo.dot_algorithm<{', '.join(parts)}>")
    if (handle := rest.pop("channel_id", None)) is not None:
        form = _plain(rest.pop("channel_type")) if "channel_type" in rest else "1"
        if kind not in _COLLECTIVES or _plain(handle) != "0":
            yield (
                "channel_handle",
                TextAttribute(f"#stablehlo.channel_handle<handle = {_plain(handle)}, type = {form}>"),
            )
    if kind == "custom_call" and not any(_has_items(rest.get(name)) for name in _LAYOUTS):
        rest = {name: value for name, value in rest.items() if name not in _LAYOUTS}
    for name, value in rest.items():
        yield name, _in_stablehlo(name, value)


_LAYOUTS: Final = ("operand_layouts", "result_layouts")
"""Attributes of custom calls that are both given or both missing; VHLO has empty lists where they are missing."""


def _has_items(value: Attribute | None) -> bool:
    return isinstance(value, ListAttribute) and bool(value.items)


def _in_stablehlo(name: str, value: Attribute) -> Attribute:
    if name in _ENUMERATED and isinstance(value, TextAttribute) and value.text != "NOTYPE":
        return TextAttribute(f"#stablehlo<{_ENUMERATED[name]} {value.text}>")
    if name == "precision_config" and isinstance(value, ListAttribute):
        return ListAttribute(tuple([TextAttribute(f"#stablehlo<precision {_plain(each)}>") for each in value.items]))
    if name in ("callee", "decomposition") and isinstance(value, StringAttribute):
        return SymbolAttribute((value.value,))
    if name == "called_computations" and isinstance(value, ListAttribute):
        symbols = [SymbolAttribute((each.value,)) for each in value.items if isinstance(each, StringAttribute)]
        return ListAttribute(tuple(symbols))
    if name == "use_global_device_ids":
        return UnitAttribute() if _plain(value) == "true" else _ABSENT[0]
    if name == "result_accuracy" and _plain(value) == _DEFAULT_ACCURACY:
        return _ABSENT[0]
    return value


def _plain(value: Attribute) -> str:
    """An attribute without its type: a number, a word, or a list of numbers."""
    if isinstance(value, DenseElements):
        return f"[{', '.join(str(_signed(number)) for number in _numbers(value))}]"
    if isinstance(value, TypeAttribute):
        return str(value.type)
    return value.bare if isinstance(value, IntegerAttribute) else str(value)


_MOST_NUMBERS: Final = 1 << 16
"""Numbers in an attribute: no list of dimensions is longer."""


def _numbers(value: DenseElements) -> list[int]:
    """The numbers of a tensor, each of which is stored once if all are equal."""
    count = value.type.elements if isinstance(value.type, ArrayType) else None
    if count is None or count > _MOST_NUMBERS:
        raise HloError(f"expected a list of at most {_MOST_NUMBERS:,} numbers, found a {value.type}")
    return value.numbers * count if value.is_splat and count != 1 else value.numbers


def _signed(number: int) -> int:
    return wrapped(number, IntegerType(64)) if number >= 0 else number


_LETTERS: Final = (
    ("input", ("batch", "b"), ("feature", "f")),
    ("kernel", ("input_feature", "i"), ("output_feature", "o")),
    ("output", ("batch", "b"), ("feature", "f")),
)
"""The parts of a convolution's dimension numbers, and the letters of their dimensions that are not spatial."""


def _convolution(rest: dict[str, Attribute]) -> Attribute:
    """The dimension numbers of a convolution: `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`."""
    parts = []
    for part, *letters in _LETTERS:
        places = {_place(rest.pop(f"{part}_{name}_dimension", None)): letter for name, letter in letters}
        spatial = rest.pop(f"{part}_spatial_dimensions", None)
        if not isinstance(spatial, DenseElements):
            raise HloError(f"expected a list of the spatial dimensions of the {part} of a convolution")
        places |= {place: str(at) for at, place in enumerate(_numbers(spatial))}
        parts.append(f"[{', '.join(places[place] for place in sorted(places))}]")
    return TextAttribute(f"#stablehlo.conv<{parts[0]}x{parts[1]}->{parts[2]}>")


def _place(value: Attribute | None) -> int:
    if not isinstance(value, IntegerAttribute):
        raise HloError("expected the number of a dimension of a convolution")
    return value.value


# --- attributes of VHLO ---


def _word(*words: str) -> Callable[[Decoder], Attribute]:
    """An enumeration, whose cases are numbered from 0."""

    def read(reader: Decoder) -> Attribute:
        return TextAttribute(words[reader.number_below(len(words), "case of an enumeration")])

    return read


def _float(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    bits = reader.bits_of(kind, start)
    return FloatAttribute(reader.number(bits), kind)


def _integer(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    bits = 64 if str(kind) == "index" else reader.bits_of(kind, start)
    return IntegerAttribute(wrapped(reader.number(bits), kind), kind)


def _boolean(reader: Decoder) -> Attribute:
    return TextAttribute("true" if reader.varint() else "false")


def _alias(reader: Decoder) -> Attribute:
    outputs, operand, inner = reader.integers(), reader.signed(), reader.integers()
    return TextAttribute(
        f"#stablehlo.output_operand_alias<output_tuple_indices = {list(outputs)}, operand_index = {operand}, "
        f"operand_tuple_indices = {list(inner)}>"
    )


def _tensor(reader: Decoder) -> Attribute:
    start = reader.at
    kind = reader.type()
    data = reader.blob()
    if not isinstance(kind, ArrayType) or kind.elements is None:
        raise reader.error("expected a type of a tensor", start)
    found = DenseElements(kind, data)
    parts = 2 if isinstance(kind.element, ComplexType) else 1
    if not found.is_splat and len(found.numbers) != kind.elements * parts:
        raise reader.error(f"the bytes are not those of a {kind}", start)
    if len(data) > _MOST_WRITTEN and str(kind.element) != "i1":
        return TextAttribute(f'dense<"0x{data.hex().upper()}"> : {kind}')
    return found


_MOST_WRITTEN: Final = 256  # bytes: a line or two of numbers; above, MLIR writes hexadecimal digits, too
"""The bytes of a tensor that are written as numbers."""


def _bounds(reader: Decoder) -> Attribute:
    bounds = ["?" if each == DYNAMIC else str(each) for each in reader.integers()]
    return TextAttribute(f"#stablehlo.bounds<{', '.join(bounds)}>")


_DEFAULT_ACCURACY: Final = "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>"


def _accuracy(reader: Decoder) -> Attribute:
    start = reader.at
    tolerances = [FloatAttribute(reader.number(64), NamedType("f64")) for _ in range(2)]
    units = reader.signed()
    mode = reader.attribute()
    if not isinstance(mode, TextAttribute):
        raise reader.error("expected a mode of accuracy", start)
    if mode.text != "TOLERANCE":
        return TextAttribute(f"#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<{mode.text}>>")
    absolute, relative = (each.bare for each in tolerances)
    return TextAttribute(
        f"#stablehlo.result_accuracy<atol = {absolute}, rtol = {relative}, ulps = {units}, "
        "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>"
    )


_VERSIONS: Final = tuple([f"{number} : i32" for number in range(5)])
"""The versions of the interface of custom calls (`CustomCallApiVersion`), which are numbers in the text."""

_ATTRIBUTES: Final[Mapping[int, Callable[[Decoder], Attribute]]] = {
    1: lambda reader: ListAttribute(reader.attributes()),
    2: _boolean,
    3: _word("EQ", "NE", "GE", "GT", "LE", "LT"),
    4: _word("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    5: _word(*_VERSIONS),
    6: read_dictionary,
    7: _word("FFT", "IFFT", "RFFT", "IRFFT"),
    8: _float,
    9: _integer,
    10: _alias,
    11: _word("DEFAULT", "HIGH", "HIGHEST"),
    12: _word("DEFAULT", "THREE_FRY", "PHILOX"),
    13: _word("INVALID", "UNIFORM", "NORMAL"),
    14: lambda reader: StringAttribute(reader.owner.string(reader)),
    15: _tensor,
    16: _word("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    17: lambda reader: TypeAttribute(reader.type()),
    18: _bounds,
    19: _word("DEFAULT", "HIGHEST", "TOLERANCE"),
    20: _accuracy,
}
"""How the rest of an attribute is read, by its code (`vhlo_encoding::AttributeCode`)."""


# --- types of VHLO ---


def _ranked(reader: Decoder, *, has_encoding: bool) -> Type:
    encoding = reader.attribute() if has_encoding else None
    return ArrayType("tensor", reader.integers(), reader.type(), encoding)


def _quantized(reader: Decoder, *, is_per_axis: bool) -> Type:
    """A quantized type, by its stored and its expressed type, scales, and zero points."""
    reader.varint()  # flags: whether the stored type has a sign, which it says itself
    stored, expressed = reader.type(), reader.type()
    if not is_per_axis:
        scale = FloatAttribute(reader.number(64), NamedType("f64"))
        points = f"{scale.bare}:{reader.signed()}"
        axis = ""
    else:
        axis = f":{reader.signed()}"
        scales = [FloatAttribute(reader.number(64), NamedType("f64")) for _ in range(reader.count("scales"))]
        zeros = reader.integers()
        pairs = zip(scales, zeros, strict=False)
        points = "{" + ", ".join(f"{one.bare}:{other}" for one, other in pairs) + "}"
    reader.signed()
    reader.signed()
    return TextType(f"!quant.uniform<{stored}:{expressed}{axis}, {points}>")


_FLOATS: Final = {
    2: "bf16", 3: "f16", 4: "f32", 5: "f64", 6: "f8E4M3FN", 7: "f8E5M2", 27: "f8E4M3FNUZ", 28: "f8E5M2FNUZ",
    29: "f8E4M3B11FNUZ", 34: "tf32", 35: "f8E4M3", 36: "f8E3M4", 37: "f4E2M1FN", 38: "f6E2M3FN", 39: "f6E3M2FN",
    40: "f8E8M0FNU",
}  # fmt: skip
_INTEGERS: Final = {  # signless in StableHLO, where VHLO says the sign
    0: IntegerType(1), 31: IntegerType(2), 10: IntegerType(4), 11: IntegerType(8), 12: IntegerType(16),
    13: IntegerType(32), 14: IntegerType(64), 32: IntegerType(2, "u"), 15: IntegerType(4, "u"),
    16: IntegerType(8, "u"), 17: IntegerType(16, "u"), 18: IntegerType(32, "u"), 19: IntegerType(64, "u"),
}  # fmt: skip

_TYPES: Final[Mapping[int, Callable[[Decoder], Type]]] = {
    **{code: lambda _, name=name: NamedType(name) for code, name in _FLOATS.items()},  # type: ignore[misc]
    **{code: lambda _, kind=kind: kind for code, kind in _INTEGERS.items()},  # type: ignore[misc]
    1: lambda reader: ComplexType(reader.type()),
    8: lambda reader: FunctionType(reader.types(), reader.types()),
    9: lambda _: NamedType("index"),
    20: lambda reader: _ranked(reader, has_encoding=False),
    21: lambda reader: _ranked(reader, has_encoding=True),
    22: lambda _: TextType("!stablehlo.token"),
    23: lambda reader: TupleType(reader.types()),
    24: lambda reader: _quantized(reader, is_per_axis=False),
    25: lambda reader: ArrayType("tensor", None, reader.type()),
    26: lambda _: TextType("!shape.witness"),
    30: lambda reader: _quantized(reader, is_per_axis=True),
    33: lambda _: NamedType("none"),
    41: lambda reader: ArrayType("memref", reader.integers(), reader.type()),
}
"""How the rest of a type is read, by its code (`vhlo_encoding::TypeCode`)."""


# --- attributes of Shardy ---
# Their parts are attributes of their own; mirrors shardy/dialect/sdy/ir/bytecode.td.


def _listed(reader: Decoder) -> str:
    return ", ".join(map(str, reader.attributes()))


def _mesh(reader: Decoder) -> Attribute:
    axes, devices = _listed(reader), reader.integers()
    ids = f", device_ids={list(devices)}" if devices else ""
    return TextAttribute(f"#sdy.mesh<[{axes}]{ids}>")


def _axis(reader: Decoder) -> Attribute:
    """An axis, or a part of it: `"x":(2)4`."""
    name = reader.owner.string(reader)
    number, is_part = reader.flagged()
    if is_part and number >= reader.owner.attribute_count:
        raise reader.error(f"attribute {number:,} not found")
    return TextAttribute(quoted(name) + (str(reader.owner.attribute(number)) if is_part else ""))


def _dimension(reader: Decoder) -> Attribute:
    axes, is_closed = _listed(reader), reader.byte()
    priority, has_priority = reader.flagged()
    words = axes if is_closed else ", ".join(filter(None, (axes, "?")))
    return TextAttribute(f"{{{words}}}" + (f"p{priority}" if has_priority else ""))


def _sharding(reader: Decoder, *, version: int) -> Attribute:
    mesh = reader.attribute()
    parts = [str(mesh).removeprefix("#sdy."), f"[{_listed(reader)}]"]
    lists = [(name, _listed(reader)) for name in ("replicated", "unreduced")[: min(version, 2)]]
    parts += [f"{name}={{{axes}}}" for name, axes in lists if axes]
    if version > 2:  # the operation that reduces, for which HLO has no form
        reader.signed()
    return TextAttribute(f"#sdy.sharding<{', '.join(parts)}>")


def _per_value(reader: Decoder) -> Attribute:
    shardings = [str(each).removeprefix("#sdy.sharding") for each in reader.attributes()]
    return TextAttribute(f"#sdy.sharding_per_value<[{', '.join(shardings)}]>")


_FIRST_FACTOR: Final = ord("i")
_LETTERED: Final = ord("z") - _FIRST_FACTOR


def _factor(number: int) -> str:
    """The name of a factor of a sharding rule: i, j, …, z, z_1, z_2, … (`factorSymbolString`)."""
    return chr(_FIRST_FACTOR + number) if number <= _LETTERED else f"z_{number - _LETTERED}"


_RULE_LISTS: Final = ("reduction", "need_replication", "permutation", "blocked_propagation")


def _rule(reader: Decoder) -> Attribute:
    """How an operation's dimensions are divided: `<([i, j])->([i]) {i=5, j=5} reduction={j}>`."""
    sizes = reader.integers()
    operands, results = (f"({_listed(reader)})" for _ in range(2))
    parts = [f"{operands}->{results}"]
    parts.append(f"{{{', '.join(f'{_factor(number)}={size}' for number, size in enumerate(sizes))}}}")
    lists = [(name, reader.integers()) for name in _RULE_LISTS]
    parts += [f"{name}={{{', '.join(map(_factor, factors))}}}" for name, factors in lists if factors]
    custom = ", custom" if reader.byte() else ""
    return TextAttribute(f"#sdy.op_sharding_rule<{' '.join(parts)}{custom}>")


_SHARDY: Final[Mapping[int, Callable[[Decoder], Attribute]]] = {
    0: lambda reader: TextAttribute(f"#sdy<manual_axes{{{_listed(reader)}}}>"),
    1: lambda reader: TextAttribute(f"{quoted(reader.owner.string(reader))}={reader.signed()}"),
    2: _mesh,
    3: lambda reader: TextAttribute(f":({reader.signed()}){reader.signed()}"),
    4: _axis,
    5: _dimension,
    6: lambda reader: _sharding(reader, version=1),
    7: _per_value,
    8: lambda reader: TextAttribute("".join(map(_factor, reader.integers()))),
    9: lambda reader: TextAttribute(f"[{_listed(reader)}]"),
    10: _rule,
    15: lambda reader: _sharding(reader, version=2),
    16: _per_value,
    17: lambda reader: _sharding(reader, version=3),
}
"""How the rest of an attribute of Shardy is read, by its code."""
