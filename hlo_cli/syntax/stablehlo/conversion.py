"""Which instructions of HLO an operation of StableHLO without regions is.

Mirrors `ExportXlaOp` of xla/hlo/translate/mhlo_to_hlo, and what `XlaBuilder` of xla/hlo/builder makes of one
operation: a broadcast in three steps, all-to-all with reshapes, the layout of a transpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.layout import Layout
from hlo_cli.ir.notation import index_text, quoted
from hlo_cli.ir.operations import OPCODE_ARITY, OUTPUT_TO_OPERAND_ALIASING
from hlo_cli.ir.shape import ArrayShape, Shape, TokenShape, TupleShape
from hlo_cli.source import HloError
from hlo_cli.syntax.literal_dense import is_splat, literal_of
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from hlo_cli.syntax.stablehlo.building import Body, Unfit
from hlo_cli.syntax.stablehlo.grammar import Operation
from hlo_cli.syntax.stablehlo.scanning import AttributeOf, Dense, Entries, ListOf, Number, Other, Text, Word
from hlo_cli.syntax.stablehlo.simplify import splat_of
from hlo_cli.syntax.stablehlo.values import enumerated, integers, split_commas, text_of

Results = Sequence[Instruction]
"""The instructions that are the results of an operation."""
Handler = Callable[[Body, Operation], Results]

# --- attributes as text ---


def numbers_of(body: Body, operation: Operation, *names: str) -> tuple[int, ...]:
    """The integers of the first of the attributes that the operation has."""
    value = next((operation.attributes[name] for name in names if name in operation.attributes), None)
    return integers(value, body.source)


def _flag(operation: Operation, name: str) -> bool:
    return operation.text(name) in ("true", "unit")


def _number(body: Body, operation: Operation, *names: str) -> int:
    numbers = numbers_of(body, operation, *names)
    if not numbers:
        raise Unfit(f"it has no {names[0]}")
    return numbers[0]


def _array(shape: Shape, what: str = "its result") -> ArrayShape:
    if not isinstance(shape, ArrayShape):
        raise Unfit(f"{what} is not an array")
    return shape


def one_shape(body: Body, operation: Operation) -> Shape:
    """The shape of the only result."""
    shapes = body.result_shapes(operation)
    if len(shapes) != 1:
        raise Unfit(f"it has {len(shapes)} results, not 1")
    return shapes[0]


def operands_of(body: Body, operation: Operation, count: int) -> list[Instruction]:
    """The operands, of which there must be so many."""
    operands = body.operands(operation)
    if len(operands) != count:
        raise Unfit(f"it has {len(operands)} operands, not {count}")
    return operands


# --- elementwise operations ---

_ELEMENTWISE: Final = (
    "abs add and atan2 cbrt ceil complex cosine count_leading_zeros divide exponential exponential_minus_one floor imag"
    " is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt power real remainder"
    " round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical sign sine sqrt"
    " subtract tan tanh xor convert bitcast_convert erf acos acosh asin asinh atanh cosh sinh"
).split()


def _elementwise(body: Body, operation: Operation) -> Results:
    opcode = operation.kind.replace("_", "-")
    operands = body.operands(operation)
    accuracy = operation.attributes.get("result_accuracy")
    mode = enumerated(accuracy.fields.get("mode")) if isinstance(accuracy, Entries) else ""
    pairs = [("result_accuracy", f"{{mode={mode.lower()}}}")] if mode not in ("", "DEFAULT") else []
    return [body.add(operation, opcode, one_shape(body, operation), operands, pairs, is_decorated=True)]


def _compare(body: Body, operation: Operation) -> Results:
    given = operation.words + [
        enumerated(operation.attributes.get(n)) for n in ("comparison_direction", "compare_type")
    ]
    words = [word for word in given if word]
    if not words or words[0] not in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        raise Unfit("it has no direction")
    pairs = [("direction", words[0])]
    if "TOTALORDER" in words[1:]:
        pairs.append(("type", "TOTALORDER"))
    operands = operands_of(body, operation, 2)
    return [body.add(operation, "compare", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _with_scalars(body: Body, operation: Operation) -> Results:
    """`select` and `clamp`, whose scalar operands XLA broadcasts."""
    shape, operands = one_shape(body, operation), operands_of(body, operation, 3)
    made = [_scalar_in(body, operation, operand, shape) for operand in operands]
    return [body.add(operation, operation.kind, shape, made, is_decorated=True)]


def _scalar_in(body: Body, operation: Operation, value: Instruction, shape: Shape) -> Instruction:
    if (
        not isinstance(value.shape, ArrayShape)
        or not isinstance(shape, ArrayShape)
        or value.shape.rank
        or not shape.rank
    ):
        return value
    pairs = [("dimensions", "{}")]
    return body.add(operation, opcodes.BROADCAST, _retyped(shape, value.shape), [value], pairs, is_exact=True)


def _reduce_precision(body: Body, operation: Operation) -> Results:
    match = re.fullmatch(r"e([0-9]{1,9})m([0-9]{1,9})", operation.text("format"))
    if match is not None:
        bits: Sequence[object] = match.groups()
    else:
        bits = [_number(body, operation, name) for name in ("exponent_bits", "mantissa_bits")]
    pairs = [("exponent_bits", str(bits[0])), ("mantissa_bits", str(bits[1]))]
    operands = operands_of(body, operation, 1)
    return [body.add(operation, "reduce-precision", one_shape(body, operation), operands, pairs, is_decorated=True)]


# --- constants and moving data ---


def constant(body: Body, operation: Operation) -> Results:
    """A constant; one value for several elements is broadcast."""
    shape, value = one_shape(body, operation), operation.attributes.get("value")
    if isinstance(value, Number):
        return [body.add(operation, opcodes.CONSTANT, shape, argument=value.text)]
    if not isinstance(value, Dense) or not isinstance(shape, ArrayShape):
        raise Unfit("its value is unknown")
    text = body.source.text[value.body.start : value.body.start + 200]
    if (
        shape.elements > 1
        and not value.is_elided
        and value.body.length <= len(text)
        and is_splat(text[: value.body.length])
    ):
        scalar = parse_shape(f"{shape.element_type.name}[]")
        return [body.splat(operation, shape, _literal(body, value, scalar))]
    return [body.constant(operation, value, value.body, shape)]


def _literal(body: Body, value: Dense, shape: Shape) -> str:
    try:
        return literal_of(body.source.slice(value.body), shape)
    except HloError as error:
        raise body.program.error(error.diagnostic.message, value.body) from None


def broadcast_in_dim(body: Body, operation: Operation) -> Results:
    """A broadcast in the steps of `XlaBuilder::BroadcastInDim`; without a new element it is a reshape."""
    dimensions = numbers_of(body, operation, "dims", "broadcast_dimensions")
    operands = body.operands(operation)
    if not operands:
        raise Unfit("it has no operand")
    made = broadcast(body, operation, operands[0], _array(one_shape(body, operation)), dimensions)
    return [made]


def broadcast(
    body: Body, operation: Operation, value: Instruction, shape: ArrayShape, dimensions: Sequence[int]
) -> Instruction:
    """An array in a larger shape, in which `dimensions` are its own."""
    operand = _array(value.shape, "its operand")
    if len(dimensions) != operand.rank or any(not 0 <= d < shape.rank for d in dimensions):
        raise Unfit("its dimensions are not those of its operand")
    text = splat_of(value)
    if text is not None and not shape.is_dynamic:
        return body.splat(operation, shape, text)
    if value in body.parts:  # a broadcast of a broadcast is one
        value, own = body.parts[value]
        return broadcast(body, operation, value, shape, [dimensions[d] for d in own])
    if operand.elements == shape.elements and not shape.is_dynamic:
        if sorted(dimensions) == list(dimensions):
            return body.add(operation, "reshape", shape, [value], is_decorated=True)
        if operand.rank == shape.rank:
            turned = [dimensions.index(d) for d in range(shape.rank)]
            return transposed(body, operation, value, shape, turned)
    made = _broadcast_in_steps(body, operation, value, shape, dimensions)
    body.parts[made] = value, tuple(dimensions)
    return made


def _broadcast_in_steps(
    body: Body, operation: Operation, value: Instruction, shape: ArrayShape, dimensions: Sequence[int]
) -> Instruction:
    """The instructions of `XlaBuilder::BroadcastInDim`: dimensions of size 1 that grow are dropped on the way."""
    operand = _array(value.shape, "its operand")
    sizes = list(shape.dimensions)
    for own, d in zip(operand.dimensions, dimensions, strict=True):
        sizes[d] = own
    name = shape.element_type.name
    if tuple(sizes) == shape.dimensions:
        pairs = [("dimensions", index_text(dimensions))]
        return body.add(operation, opcodes.BROADCAST, shape, [value], pairs, is_decorated=True, is_exact=True)
    inner = parse_shape(f"{name}[{','.join(map(_size, sizes))}]")
    pairs = [("dimensions", index_text(dimensions))]
    first = body.add(operation, opcodes.BROADCAST, inner, [value], pairs, is_exact=True)
    kept = [d for d in range(shape.rank) if sizes[d] == shape.dimensions[d]]
    squeezed = parse_shape(f"{name}[{','.join(_size(sizes[d]) for d in kept)}]")
    second = body.add(operation, "reshape", squeezed, [first], is_exact=True)
    pairs = [("dimensions", index_text(kept))]
    return body.add(operation, opcodes.BROADCAST, shape, [second], pairs, is_decorated=True, is_exact=True)


def _size(size: int) -> str:
    return str(size) if size >= 0 else "?"


def _broadcast(body: Body, operation: Operation) -> Results:
    """`broadcast`, which adds dimensions in front."""
    [value], shape = operands_of(body, operation, 1), _array(one_shape(body, operation))
    rank = _array(value.shape, "its operand").rank
    return [broadcast(body, operation, value, shape, range(shape.rank - rank, shape.rank))]


def _iota(body: Body, operation: Operation) -> Results:
    """An iota, of one dimension if it has several."""
    dimension, shape = _number(body, operation, "dim", "iota_dimension"), _array(one_shape(body, operation))
    if shape.is_dynamic or dimension >= shape.rank:
        raise Unfit("its dimension does not exist")
    if shape.dimensions[dimension] == 1 and shape.element_type.kind in ("signed", "unsigned", "float"):
        return [body.splat(operation, shape, "0")]
    if shape.rank == 1:
        return [body.add(operation, "iota", shape, (), [("iota_dimension", "0")], is_decorated=True)]
    one = body.add(operation, "iota", _resized(shape, [shape.dimensions[dimension]]), (), [("iota_dimension", "0")])
    return [broadcast(body, operation, one, shape, [dimension])]


def _transpose(body: Body, operation: Operation) -> Results:
    """A transpose, whose result has the layout in which no element moves (`ShapeInference::InferTransposeShape`)."""
    dimensions = numbers_of(body, operation, "dims", "permutation")
    shape, operands = one_shape(body, operation), operands_of(body, operation, 1)
    return [transposed(body, operation, operands[0], shape, dimensions)]


def transposed(
    body: Body, operation: Operation, value: Instruction, shape: Shape, dimensions: Sequence[int]
) -> Instruction:
    """An array with its dimensions in another order."""
    operand = value.shape
    if (
        isinstance(shape, ArrayShape)
        and isinstance(operand, ArrayShape)
        and sorted(dimensions) == list(range(operand.rank))
    ):
        place = {d: i for i, d in enumerate(dimensions)}
        order = tuple(place[d] for d in operand.layout.minor_to_major)
        shape = ArrayShape(shape.element_type, shape.dimensions, shape.dynamic_dimensions, Layout(order))
    return body.add(operation, "transpose", shape, [value], [("dimensions", index_text(dimensions))], is_decorated=True)


def _dimensions_of(opcode: str, *names: str) -> Handler:
    """Operations with one attribute, `dimensions`."""

    def handler(body: Body, operation: Operation) -> Results:
        pairs = [("dimensions", index_text(numbers_of(body, operation, *names)))]
        operands = body.operands(operation)
        return [body.add(operation, opcode, one_shape(body, operation), operands, pairs, is_decorated=True)]

    return handler


_RANGE: Final = re.compile(r"\s*+(-?[0-9]{1,18})\s*+:\s*+(-?[0-9]{1,18})\s*+(?::\s*+(-?[0-9]{1,18})\s*+)?")


def _slice(body: Body, operation: Operation) -> Results:
    listed = operation.attributes.get("list")
    if isinstance(listed, Other):
        slices = [_RANGE.fullmatch(part) for part in split_commas(listed.text)]
        if None in slices:
            raise Unfit("its ranges are malformed")
        ranges = [match.groups("1") for match in slices if match is not None]
    else:
        names = ("start_indices", "limit_indices", "strides")
        ranges = list(zip(*(map(str, numbers_of(body, operation, name)) for name in names), strict=False))
    has_steps = any(step != "1" for _, _, step in ranges)  # XLA prints the strides of all dimensions or of none
    texts = [f"[{start}:{limit}:{step}]" if has_steps else f"[{start}:{limit}]" for start, limit, step in ranges]
    operands = operands_of(body, operation, 1)
    pairs = [("slice", f"{{{', '.join(texts)}}}")]
    return [body.add(operation, "slice", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _dynamic_slice(body: Body, operation: Operation) -> Results:
    pairs = [("dynamic_slice_sizes", index_text(numbers_of(body, operation, "sizes", "slice_sizes")))]
    operands = body.operands(operation)
    return [body.add(operation, "dynamic-slice", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _pad(body: Body, operation: Operation) -> Results:
    names = ("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")
    sides = list(zip(*(numbers_of(body, operation, *name) for name in names), strict=False))
    has_interior = any(side[2] for side in sides)
    text = "x".join("_".join(map(str, side[: 2 + has_interior])) for side in sides)
    operands = operands_of(body, operation, 2)
    pairs = [("padding", text)] if text else []
    return [body.add(operation, "pad", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _plain(opcode: str) -> Handler:
    """Operations without attributes."""

    def handler(body: Body, operation: Operation) -> Results:
        operands = body.operands(operation)
        return [body.add(operation, opcode, one_shape(body, operation), operands, is_decorated=True)]

    return handler


def _tuple_element(body: Body, operation: Operation) -> Results:
    listed = operation.attributes.get("list")
    index = listed.text.strip() if isinstance(listed, Other) else str(_number(body, operation, "index"))
    operands = operands_of(body, operation, 1)
    return [body.add(operation, opcodes.GET_TUPLE_ELEMENT, one_shape(body, operation), operands, [("index", index)])]


_GATHER: Final = (
    ("offset_dims", "offset_dims"),
    ("collapsed_slice_dims", "collapsed_slice_dims"),
    ("start_index_map", "start_index_map"),
    ("operand_batching_dims", "operand_batching_dims"),
    ("start_indices_batching_dims", "start_indices_batching_dims"),
)
SCATTER: Final = (
    ("update_window_dims", "update_window_dims"),
    ("inserted_window_dims", "inserted_window_dims"),
    ("scatter_dims_to_operand_dims", "scatter_dims_to_operand_dims"),
    ("input_batching_dims", "input_batching_dims"),
    ("scatter_indices_batching_dims", "scatter_indices_batching_dims"),
)


def indexed(body: Body, value: AttributeOf | None, names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The dimension numbers of a gather or a scatter; lists of batch dimensions are left out if they are empty."""
    fields: Mapping[str, AttributeOf] = value.fields if isinstance(value, Entries) else {}
    pairs = [(other, index_text(integers(fields.get(name), body.source))) for name, other in names]
    pairs = [pair for pair in pairs if "batching" not in pair[0] or pair[1] != "{}"]
    vector = integers(fields.get("index_vector_dim"), body.source)
    return [*pairs, ("index_vector_dim", str(vector[0] if vector else 0))]


def flags(operation: Operation, *names: str) -> list[tuple[str, str]]:
    """The attributes that are true."""
    return [(name, "true") for name in names if _flag(operation, name)]


def _gather(body: Body, operation: Operation) -> Results:
    pairs = indexed(body, operation.attributes.get("dimension_numbers"), _GATHER)
    pairs.append(("slice_sizes", index_text(numbers_of(body, operation, "slice_sizes"))))
    pairs += flags(operation, "indices_are_sorted")
    operands = operands_of(body, operation, 2)
    return [body.add(operation, "gather", one_shape(body, operation), operands, pairs, is_decorated=True)]


# --- matrices ---


def _precision(operation: Operation) -> list[tuple[str, str]]:
    value = operation.attributes.get("precision", operation.attributes.get("precision_config"))
    words = [enumerated(item).lower() for item in value.items] if isinstance(value, ListOf) else []
    return [("operand_precision", index_text(words))] if any(word not in ("default", "") for word in words) else []


def _algorithm(operation: Operation) -> list[tuple[str, str]]:
    """The name of the algorithm of a matmul (`PrecisionConfig::Algorithm` of xla/xla_data.proto)."""
    value = operation.attributes.get("algorithm")
    if not isinstance(value, Entries):
        return []
    fields = {name: field.text for name, field in value.fields.items() if isinstance(field, Word | Number | Other)}
    types = [fields.get(f"{name}_type", "").lower() for name in ("lhs_precision", "rhs_precision", "accumulation")]
    if "any_f8" in types[0] or types[0].startswith("f8"):
        types[:2] = ["any_f8", "any_f8"]
    count = fields.get("num_primitive_operations", "1")
    end = "_fast_accum" if fields.get("allow_imprecise_accumulation") == "true" else ""
    return [("algorithm", f"dot_{'_'.join(types)}{f'_x{count}' if count != '1' else ''}{end}")]


def _dot_general(body: Body, operation: Operation) -> Results:
    numbers = operation.attributes.get("dot_dimension_numbers")
    fields: Mapping[str, AttributeOf] = numbers.fields if isinstance(numbers, Entries) else {}
    found = {}
    for what, long in (("batching_dims", "batching_dimensions"), ("contracting_dims", "contracting_dimensions")):
        pair = operation.attributes.get(what)
        both = pair.items if isinstance(pair, ListOf) and len(pair.items) == 2 else ()
        for side, short in zip(("lhs", "rhs"), both or (None, None), strict=True):
            value = short if short is not None else fields.get(f"{side}_{long}")
            found[side, what] = integers(value, body.source)
    names = [(side, what) for side in ("lhs", "rhs") for what in ("batching_dims", "contracting_dims")]
    pairs = [
        (f"{side}_{'batch' if what[0] == 'b' else 'contracting'}_dims", index_text(found[side, what]))
        for side, what in names
        if found[side, what]
    ]
    operands = operands_of(body, operation, 2)
    pairs += [*_precision(operation), *_algorithm(operation)]
    return [body.add(operation, "dot", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _dot(body: Body, operation: Operation) -> Results:
    """A product of vectors and matrices: the last dimension of the first with the first of the second."""
    first, second = operands_of(body, operation, 2)
    last = _array(first.shape, "its operand").rank - 1
    pairs = [("lhs_contracting_dims", index_text([last])), ("rhs_contracting_dims", "{0}"), *_precision(operation)]
    return [body.add(operation, "dot", one_shape(body, operation), [first, second], pairs, is_decorated=True)]


def _convolution(body: Body, operation: Operation) -> Results:
    shapes = operands_of(body, operation, 2)
    numbers = operation.text("dimension_numbers")
    labels = re.sub(r"^#\w+\.conv<|>$|[\[\],\s]", "", numbers).replace("->", ">").split(">")
    parts = [*labels[0].split("x"), *labels[1:]] if "x" in labels[0] else []
    if len(parts) != 3:
        raise Unfit("its dimension numbers are malformed")
    kernel = _array(shapes[1].shape, "its kernel")
    places = sorted((int(letter), index) for index, letter in enumerate(parts[1]) if letter.isdecimal())
    if any(at >= kernel.rank for _, at in places):
        raise Unfit("its dimension numbers do not fit its kernel")
    sizes = [kernel.dimensions[at] for _, at in places]
    window = operation.attributes.get("window")
    fields = dict(window.fields) if isinstance(window, Entries) else {}
    named = {
        "stride": fields.get("stride", operation.attributes.get("window_strides")),
        "pad": fields.get("pad", operation.attributes.get("padding")),
        "lhs_dilate": fields.get("lhs_dilate", operation.attributes.get("lhs_dilation")),
        "rhs_dilate": fields.get("rhs_dilate", operation.attributes.get("rhs_dilation")),
        "rhs_reversal": fields.get("reverse", operation.attributes.get("window_reversal")),
    }
    pairs = window_of(body, sizes, named)
    pairs.append(("dim_labels", f"{parts[0]}_{parts[1]}->{parts[2]}"))
    for name in ("feature_group_count", "batch_group_count"):
        count = numbers_of(body, operation, name)
        pairs += [(name, str(count[0]))] if count and count[0] != 1 else []
    pairs += _precision(operation)
    return [body.add(operation, "convolution", one_shape(body, operation), shapes, pairs, is_decorated=True)]


def window_of(body: Body, sizes: Sequence[int], named: Mapping[str, AttributeOf | None]) -> list[tuple[str, str]]:
    """The window of these sizes, with what differs from the default, as XLA prints it."""
    if not sizes:
        return []
    parts = [f"size={'x'.join(map(str, sizes))}"]
    for name, value in named.items():
        numbers = integers(value, body.source)
        if name == "pad":
            sides = list(zip(numbers[::2], numbers[1::2], strict=False))
            parts += [f"pad={'x'.join(f'{low}_{high}' for low, high in sides)}"] if any(numbers) else []
        elif any(number != (0 if name == "rhs_reversal" else 1) for number in numbers):
            parts.append(f"{name}={'x'.join(map(str, numbers))}")
    return [("window", f"{{{' '.join(parts)}}}")]


def _cholesky(body: Body, operation: Operation) -> Results:
    pairs = flags(operation, "lower")
    operands = operands_of(body, operation, 1)
    return [body.add(operation, "cholesky", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _triangular_solve(body: Body, operation: Operation) -> Results:
    pairs = flags(operation, "left_side", "lower", "unit_diagonal")
    pairs.append(("transpose_a", enumerated(operation.attributes.get("transpose_a")) or "NO_TRANSPOSE"))
    operands = operands_of(body, operation, 2)
    return [body.add(operation, "triangular-solve", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _fft(body: Body, operation: Operation) -> Results:
    kind = enumerated(operation.attributes.get("type", operation.attributes.get("fft_type")))
    lengths = numbers_of(body, operation, "length", "fft_length")
    operands = operands_of(body, operation, 1)
    pairs = [("fft_type", kind), ("fft_length", index_text(lengths))]
    return [body.add(operation, "fft", one_shape(body, operation), operands, pairs, is_decorated=True)]


def _batch_norm(body: Body, operation: Operation) -> Results:
    epsilon, feature = operation.attributes.get("epsilon"), _number(body, operation, "feature_index")
    value = f"{float(epsilon.text):.6g}" if isinstance(epsilon, Number) else "0"
    pairs = [("epsilon", value), ("feature_index", str(feature))]
    return body.results(operation, operation.kind.replace("_", "-"), body.operands(operation), pairs)


# --- random numbers ---

_ALGORITHMS: Final = {"DEFAULT": "rng_default", "PHILOX": "rng_philox", "THREE_FRY": "rng_three_fry"}


def _rng_bit_generator(body: Body, operation: Operation) -> Results:
    word = enumerated(operation.attributes.get("algorithm", operation.attributes.get("rng_algorithm")))
    pairs = [("algorithm", _ALGORITHMS.get(word, word.lower()))]
    return body.results(operation, "rng-bit-generator", operands_of(body, operation, 1), pairs)


def _rng(body: Body, operation: Operation) -> Results:
    word = enumerated(operation.attributes.get("distribution", operation.attributes.get("rng_distribution")))
    operands = body.operands(operation)[:2]
    pairs = [("distribution", f"rng_{word.lower()}")]
    return [body.add(operation, "rng", one_shape(body, operation), operands, pairs, is_decorated=True)]


# --- tokens, tuples, the host ---


def barrier(body: Body, operation: Operation) -> Results:
    """An optimization barrier, of a tuple if there are several values."""
    operands = body.operands(operation)
    if len(operands) == 1:
        return [body.add(operation, "opt-barrier", operands[0].shape, operands, is_decorated=True)]
    shape = TupleShape(tuple([operand.shape for operand in operands]))
    packed = body.add(operation, opcodes.TUPLE, shape, operands)
    return body.elements(operation, body.add(operation, "opt-barrier", shape, [packed], is_decorated=True))


def _tuple(body: Body, operation: Operation) -> Results:
    operands = body.operands(operation)
    return [body.add(operation, opcodes.TUPLE, TupleShape(tuple([operand.shape for operand in operands])), operands)]


_T = TypeVar("_T")


def _with_token(values: list[_T]) -> list[_T]:
    """Values of which the last is a token."""
    if not values:
        raise Unfit("it has no token")
    return values


def _infeed(body: Body, operation: Operation) -> Results:
    """Data and a token in a tuple; several arrays are a tuple in it."""
    *data, token = _with_token(body.result_shapes(operation))
    inner = data[0] if len(data) == 1 else TupleShape(tuple(data))
    config = operation.text("infeed_config")
    pairs = [("infeed_config", quoted(config))] if config else []
    made = body.add(operation, "infeed", TupleShape((inner, token)), body.operands(operation), pairs, is_decorated=True)
    first, last = body.elements(operation, made)
    return [*([first] if len(data) == 1 else body.elements(operation, first)), last]


def _packed(body: Body, operation: Operation, values: Sequence[Instruction]) -> Instruction:
    if len(values) == 1:
        return values[0]
    return body.add(operation, opcodes.TUPLE, TupleShape(tuple([value.shape for value in values])), values)


def _outfeed(body: Body, operation: Operation) -> Results:
    *data, token = _with_token(body.operands(operation))
    packed = _packed(body, operation, data)
    pairs = [("outfeed_shape", str(packed.shape))]
    config = operation.text("outfeed_config")
    pairs += [("outfeed_config", quoted(config))] if config else []
    return [body.add(operation, "outfeed", TokenShape(), [packed, token], pairs, is_decorated=True)]


def channel(body: Body, operation: Operation) -> list[tuple[str, str]]:
    """The channel of a collective or a transfer, if it has one."""
    value = operation.attributes.get("channel_handle")
    fields = value.fields if isinstance(value, Entries) else {}
    handle = integers(fields.get("handle"), body.source) or numbers_of(body, operation, "channel_id")
    return [("channel_id", str(handle[0]))] if handle and handle[0] > 0 else []


def _host(operation: Operation) -> list[tuple[str, str]]:
    return flags(operation, "is_host_transfer")


def _send(body: Body, operation: Operation) -> Results:
    *data, token = _with_token(body.operands(operation))
    packed = _packed(body, operation, data)
    pairs = [*channel(body, operation), *_host(operation)]
    shape = TupleShape((packed.shape, parse_shape("u32[]"), TokenShape()))
    started = body.add(operation, "send", shape, [packed, token], pairs, is_decorated=True)
    return [body.add(operation, "send-done", TokenShape(), [started], pairs)]


def _recv(body: Body, operation: Operation) -> Results:
    *data, token = _with_token(body.result_shapes(operation))
    inner = data[0] if len(data) == 1 else TupleShape(tuple(data))
    pairs = [*channel(body, operation), *_host(operation)]
    shape = TupleShape((inner, parse_shape("u32[]"), token))
    started = body.add(operation, "recv", shape, body.operands(operation), pairs, is_decorated=True)
    done = body.add(operation, "recv-done", TupleShape((inner, token)), [started], pairs)
    first, last = body.elements(operation, done)
    return [*([first] if len(data) == 1 else body.elements(operation, first)), last]


# --- collectives without a computation ---


def replica_groups(body: Body, operation: Operation) -> list[tuple[str, str]]:
    """The groups of devices, as a list of lists."""
    return [("replica_groups", _pairs_of_numbers(body, operation, operation.attributes.get("replica_groups")))]


def _pairs_of_numbers(body: Body, operation: Operation, value: AttributeOf | None) -> str:
    """A matrix of numbers; −1 fills up groups that are shorter than others."""
    numbers = integers(value, body.source)
    width = 0
    if isinstance(value, Dense):
        shape = body.shape(value.type, operation)
        width = shape.dimensions[-1] if isinstance(shape, ArrayShape) and shape.rank else 0
    if not numbers or width < 1:
        return "{}"
    rows = [numbers[start : start + width] for start in range(0, len(numbers), width)]
    return "{" + ",".join(index_text(number for number in row if number >= 0) for row in rows) + "}"


def global_ids(operation: Operation) -> list[tuple[str, str]]:
    """Whether the groups are of devices."""
    return flags(operation, "use_global_device_ids")


def _all_gather(body: Body, operation: Operation) -> Results:
    dimension = _number(body, operation, "all_gather_dim")
    pairs = [*channel(body, operation), *replica_groups(body, operation), ("dimensions", index_text([dimension]))]
    pairs += global_ids(operation)
    return body.results(operation, "all-gather", body.operands(operation), pairs)


def _all_to_all(body: Body, operation: Operation) -> Results:
    """Several arrays are exchanged as they are; one is split, exchanged, and joined (`XlaBuilder::AllToAllArray`)."""
    operands = body.operands(operation)
    pairs = [*channel(body, operation), *replica_groups(body, operation)]
    if len(operands) != 1:
        return body.results(operation, "all-to-all", operands, pairs)
    names = ("split_dimension", "concat_dimension", "split_count")
    split, concat, count = (_number(body, operation, name) for name in names)
    operand, shape = _array(operands[0].shape, "its operand"), one_shape(body, operation)
    if (
        not 0 <= split < operand.rank
        or not 0 <= concat < operand.rank
        or count < 1
        or operand.dimensions[split] % count
    ):
        raise Unfit("it does not split its operand evenly")
    pairs.append(("dimensions", index_text([split])))
    made = body.add(operation, "all-to-all", operand, operands, pairs, is_decorated=True)
    if split == concat:
        return [made]
    sizes = list(operand.dimensions)
    sizes[split : split + 1] = [count, operand.dimensions[split] // count]
    made = body.add(operation, "reshape", _resized(operand, sizes), [made], is_exact=True)
    order: list[int] = []
    for d in range(operand.rank):
        order += [split] if d == concat else []
        order.append(d + (d >= split))
    moved = _resized(operand, [sizes[d] for d in order])
    made = transposed(body, operation, made, moved, order)
    return [body.add(operation, "reshape", shape, [made], is_exact=True)]


def _resized(shape: ArrayShape, sizes: Sequence[int]) -> ArrayShape:
    return _array(parse_shape(f"{shape.element_type.name}[{','.join(map(_size, sizes))}]"))


def _permute(body: Body, operation: Operation) -> Results:
    pairs = channel(body, operation)
    pairs.append(
        ("source_target_pairs", _pairs_of_numbers(body, operation, operation.attributes.get("source_target_pairs")))
    )
    return body.results(operation, "collective-permute", body.operands(operation), pairs)


def _collective_broadcast(body: Body, operation: Operation) -> Results:
    pairs = [*channel(body, operation), *replica_groups(body, operation)]
    return body.results(operation, "collective-broadcast", body.operands(operation), pairs)


# --- dynamic shapes ---


def _dynamic(body: Body, operation: Operation) -> Results:
    """An operation with sizes as operands: of a static result it is the static operation, else a call of XLA's own."""
    shape, operands = _array(one_shape(body, operation)), body.operands(operation)
    if not operands:
        raise Unfit("it has no operand")
    if not shape.is_dynamic:
        match operation.kind:
            case "dynamic_broadcast_in_dim":
                dimensions = numbers_of(body, operation, "dims", "broadcast_dimensions")
                return [broadcast(body, operation, operands[0], shape, dimensions)]
            case "dynamic_reshape":
                return [body.add(operation, "reshape", shape, operands[:1], is_decorated=True)]
            case "dynamic_iota":
                return _iota(body, operation)
    target = quoted(f"mhlo.{operation.kind}")
    return [body.add(operation, opcodes.CUSTOM_CALL, shape, operands, [("custom_call_target", target)])]


def _set_dimension_size(body: Body, operation: Operation) -> Results:
    """The result has the old size as a bound."""
    dimension = _number(body, operation, "dim", "dimension")
    value, size = operands_of(body, operation, 2)
    operand = _array(value.shape, "its operand")
    if not 0 <= dimension < operand.rank:
        raise Unfit("its dimension does not exist")
    sizes = [
        f"<={size}" if d == dimension or each_dynamic else _size(size)
        for d, (size, each_dynamic) in enumerate(zip(operand.dimensions, operand.dynamic_dimensions, strict=True))
    ]
    shape = parse_shape(f"{operand.element_type.name}[{','.join(sizes)}]")
    pairs = [("dimensions", index_text([dimension]))]
    return [body.add(operation, "set-dimension-size", shape, [value, size], pairs, is_decorated=True)]


# --- custom calls and functions of other dialects ---

_API: Final = {2: "API_VERSION_STATUS_RETURNING", 3: "API_VERSION_STATUS_RETURNING_UNIFIED", 4: "API_VERSION_TYPED_FFI"}
_SCHEDULES: Final = {"LATEST": "SCHEDULE_LATEST", "EARLIEST": "SCHEDULE_EARLIEST"}
_OWN: Final = (
    "mhlo.topk",
    "mhlo.erf",
    "mhlo.tan",
    "mhlo.asin",
    "mhlo.acos",
    "mhlo.acosh",
    "mhlo.asinh",
    "mhlo.atanh",
    "mhlo.cosh",
    "mhlo.sinh",
)
"""Operations of HLO that StableHLO lacks, which are written as custom calls."""


def custom_call(body: Body, operation: Operation) -> Results:
    """A custom call; some targets stand for operations of HLO."""
    target = operation.symbol("callee") or operation.text("call_target_name")
    operands = body.operands(operation)
    if target in _OWN and (own := _own(body, operation, target, operands)) is not None:
        return own
    shapes = _laid_out(body, body.result_shapes(operation), operation.attributes.get("result_layouts"))
    pairs = [("custom_call_target", quoted(target))]
    layouts = operation.attributes.get("operand_layouts")
    if layouts is not None:
        constrained = _laid_out(body, [operand.shape for operand in operands], layouts)
        pairs.append(("operand_layout_constraints", f"{{{', '.join(map(str, constrained))}}}"))
    pairs += [("custom_call_has_side_effect", "true")] if _flag(operation, "has_side_effect") else []
    called = [body.program.called[name] for name in _symbols(operation) if name in body.program.called]
    pairs += (
        [("called_computations", "{" + ", ".join(f"%{computation.name}" for computation in called) + "}")]
        if called
        else []
    )
    pairs += _aliasing(body, operation)
    schedule = enumerated(operation.attributes.get("custom_call_schedule"))
    pairs += [("schedule", _SCHEDULES[schedule])] if schedule in _SCHEDULES else []
    pairs += _configuration(body, operation)
    # it goes after the attributes that every operation may have
    at = next((i for i, pair in enumerate(pairs) if pair[0] == "backend_config"), len(pairs))
    listed = [*pairs[:at], *body.decorations(operation), *pairs[at:]]
    if len(shapes) == 1:
        return [body.add(operation, opcodes.CUSTOM_CALL, shapes[0], operands, listed, called)]
    made = body.add(operation, opcodes.CUSTOM_CALL, TupleShape(tuple(shapes)), operands, listed, called)
    frontend = [pair for pair in body.decorations(operation) if pair[0] == "frontend_attributes"]
    return body.elements(operation, made, frontend)


def _symbols(operation: Operation) -> list[str]:
    value = operation.attributes.get("called_computations")
    items = value.items if isinstance(value, ListOf) else ()
    return [item.text.removeprefix("@").strip('"') for item in items if isinstance(item, Word)]


def _own(body: Body, operation: Operation, target: str, operands: Sequence[Instruction]) -> Results | None:
    opcode = target.removeprefix("mhlo.")
    if opcode != "topk":
        return [body.add(operation, opcode, one_shape(body, operation), operands, is_decorated=True)]
    value = operation.attributes.get("mhlo.attributes")
    fields = value.fields if isinstance(value, Entries) else {}
    k = integers(fields.get("k"), body.source)
    largest = fields.get("largest", Word("true"))
    if not k:
        return None
    pairs = [("k", str(k[0])), ("largest", "false" if largest == Word("false") else "true")]
    return body.results(operation, "topk", operands, pairs)


def _laid_out(body: Body, shapes: Sequence[Shape], layouts: AttributeOf | None) -> list[Shape]:
    """Shapes in the layouts of a list, in which one may be of a tuple of all."""
    listed = [integers(item, body.source) for item in layouts.items] if isinstance(layouts, ListOf) else []
    leaf_shapes: list[Shape] = []
    for shape, order in zip(shapes, listed, strict=False):
        if isinstance(shape, ArrayShape) and sorted(order) == list(range(shape.rank)):
            shape = ArrayShape(shape.element_type, shape.dimensions, shape.dynamic_dimensions, Layout(order))
        leaf_shapes.append(shape)
    return [*leaf_shapes, *shapes[len(leaf_shapes) :]]


def _aliasing(body: Body, operation: Operation) -> list[tuple[str, str]]:
    value = operation.attributes.get("output_operand_aliases")
    texts = []
    for item in value.items if isinstance(value, ListOf) else ():
        fields = item.fields if isinstance(item, Entries) else {}
        names = ("output_tuple_indices", "operand_index", "operand_tuple_indices")
        output, operand, index = (integers(fields.get(name), body.source) for name in names)
        inner = ", ".join(map(str, index))
        texts.append(f"{{{', '.join(map(str, output))}}}: ({operand[0] if operand else 0}, {{{inner}}})")
    return [(OUTPUT_TO_OPERAND_ALIASING, f"{{{', '.join(texts)}}}")] if texts else []


def _configuration(body: Body, operation: Operation) -> list[tuple[str, str]]:
    """The calling convention and the configuration: a string, or a dictionary of the typed convention."""
    version = numbers_of(body, operation, "api_version")
    config = operation.attributes.get("mhlo.backend_config", operation.attributes.get("backend_config"))
    pairs = [("api_version", _API[version[0]])] if version and version[0] in _API else []
    if isinstance(config, Entries):
        pairs = [("api_version", _API[4]), ("backend_config", text_of(config, body.source))]
    elif isinstance(config, Text) and config.value:
        pairs.append(("backend_config", quoted(config.value)))
    return pairs


def _top_k(body: Body, operation: Operation) -> Results:
    pairs = [("k", str(_number(body, operation, "k"))), ("largest", "true")]
    return body.results(operation, "topk", operands_of(body, operation, 1), pairs)


def _square(body: Body, operation: Operation) -> Results:
    [value] = operands_of(body, operation, 1)
    return [body.add(operation, "multiply", one_shape(body, operation), [value, value], is_decorated=True)]


def _atan(body: Body, operation: Operation) -> Results:
    """The arc tangent is that of a quotient by 1: `AtanOp` in stablehlo/transforms/ChloDecompositionPatterns.td."""
    [value] = operands_of(body, operation, 1)
    if not isinstance(value.shape, ArrayShape) or value.shape.element_type.kind != "float":
        raise Unfit("HLO has no arc tangent of complex numbers")
    one = body.splat(operation, value.shape, "1")
    return [body.add(operation, "atan2", one_shape(body, operation), [value, one], is_decorated=True)]


def _conjugate(body: Body, operation: Operation) -> Results:
    """Real and imaginary part, the latter negated: `ConjOp`, as above."""
    [value] = operands_of(body, operation, 1)
    shape = _array(value.shape, "an operand")
    half = {"c64": "f32", "c128": "f64"}.get(shape.element_type.name)
    if half is None:
        raise Unfit("it is of real numbers")
    parts = _retyped(shape, _array(parse_shape(f"{half}[]")))
    real, imaginary = (body.add(operation, opcode, parts, [value]) for opcode in ("real", "imag"))
    negated = body.add(operation, "negate", parts, [imaginary])
    return [body.add(operation, "complex", one_shape(body, operation), [real, negated], is_decorated=True)]


def _broadcasting(body: Body, operation: Operation) -> Results:
    """`chlo.broadcast_add` and its like: operands are broadcast to the shape of the result."""
    kind = operation.kind.removeprefix("broadcast_")
    shape = _array(one_shape(body, operation))
    if kind.replace("_", "-") not in OPCODE_ARITY or shape.is_dynamic:
        raise Unfit("HLO has no such operation")
    listed = numbers_of(body, operation, "broadcast_dimensions")
    made = []
    for value in body.operands(operation):
        own = _array(value.shape, "an operand")
        last = range(shape.rank - own.rank, shape.rank)
        dimensions = listed if own.rank < shape.rank and len(listed) == own.rank else tuple(last)
        same = own.dimensions == shape.dimensions
        made.append(value if same else broadcast(body, operation, value, _retyped(shape, own), dimensions))
    pairs = []
    if kind == "compare":
        pairs = [("direction", enumerated(operation.attributes.get("comparison_direction")))]
    return [body.add(operation, kind.replace("_", "-"), shape, made, pairs, is_decorated=True)]


def _retyped(shape: ArrayShape, like: ArrayShape) -> ArrayShape:
    return ArrayShape(like.element_type, shape.dimensions, shape.dynamic_dimensions, shape.layout)


def opaque(body: Body, operation: Operation, reason: str = "") -> Results:
    """An operation without a form in HLO: a custom call of its name, with a note."""
    why = f": {reason}" if reason else ""
    message = f"{operation.name} is read as a custom call, of unknown cost{why}"
    body.program.note("opaque-operation", message, operation.span)
    try:
        operands = body.operands(operation)
    except Unfit:
        operands = []
    pairs = [("custom_call_target", quoted(operation.name))]
    shapes = body.result_shapes(operation)
    shape = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
    made = body.add(operation, opcodes.CUSTOM_CALL, shape, operands, pairs, is_decorated=True)
    return [made] if len(shapes) == 1 else body.elements(operation, made)


HANDLERS: Final[Mapping[str, Handler]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    "compare": _compare,
    "select": _with_scalars,
    "clamp": _with_scalars,
    "reduce_precision": _reduce_precision,
    "constant": constant,
    "broadcast_in_dim": broadcast_in_dim,
    "broadcast": _broadcast,
    "iota": _iota,
    "transpose": _transpose,
    "reshape": _plain("reshape"),
    "dynamic_update_slice": _plain("dynamic-update-slice"),
    "reverse": _dimensions_of("reverse", "dims", "dimensions"),
    "concatenate": _dimensions_of("concatenate", "dim", "dimension"),
    "get_dimension_size": _dimensions_of("get-dimension-size", "dim", "dimension"),
    "set_dimension_size": _set_dimension_size,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "pad": _pad,
    "gather": _gather,
    "dot_general": _dot_general,
    "dot": _dot,
    "convolution": _convolution,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "fft": _fft,
    "batch_norm_training": _batch_norm,
    "batch_norm_inference": _batch_norm,
    "batch_norm_grad": _batch_norm,
    "rng_bit_generator": _rng_bit_generator,
    "rng": _rng,
    "optimization_barrier": barrier,
    "tuple": _tuple,
    "get_tuple_element": _tuple_element,
    "after_all": _plain("after-all"),
    "create_token": _plain("after-all"),
    "infeed": _infeed,
    "outfeed": _outfeed,
    "send": _send,
    "recv": _recv,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "collective_permute": _permute,
    "collective_broadcast": _collective_broadcast,
    "partition_id": _plain("partition-id"),
    "replica_id": _plain("replica-id"),
    "dynamic_broadcast_in_dim": _dynamic,
    "dynamic_reshape": _dynamic,
    "dynamic_iota": _dynamic,
    "dynamic_pad": _dynamic,
    "dynamic_gather": _dynamic,
    "dynamic_conv": _dynamic,
    "real_dynamic_slice": _dynamic,
    "custom_call": custom_call,
    "topk": _top_k,
    "copy": _plain("copy"),
    "add_dependency": _plain("add-dependency"),
}
"""Operations of StableHLO and MHLO, by name without the dialect."""

CHLO: Final[Mapping[str, Handler]] = {
    **dict.fromkeys(("erf", "tan", "asin", "acos", "acosh", "asinh", "atanh", "cosh", "sinh"), _elementwise),
    "square": _square,
    "atan": _atan,
    "conj": _conjugate,
    "top_k": _top_k,
    "constant": constant,
}
"""Operations of CHLO that HLO has too."""


def handler_of(name: str) -> Handler | None:
    """What makes instructions of an operation, by its whole name; None if HLO has none."""
    dialect, _, kind = name.partition(".")
    match dialect:
        case "stablehlo" | "mhlo":
            return HANDLERS.get(kind)
        case "chlo":
            return _broadcasting if kind.startswith("broadcast_") else CHLO.get(kind)
        case "arith" if kind == "constant":
            return constant
    return None


def read_operation(body: Body, operation: Operation, handler: Handler | None) -> Results:
    """The results of one operation; one that does not fit its form is opaque, with a note."""
    if handler is None:
        return opaque(body, operation)
    try:
        return handler(body, operation)
    except Unfit as error:
        reason = str(error)
    except HloError as error:
        if error.diagnostic.source is not None:  # a place in the text: it is damaged
            raise
        reason = error.diagnostic.message
    return opaque(body, operation, reason)
