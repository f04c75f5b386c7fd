"""Random modules of one operation, for every opcode, type, and odd shapes, with arguments; a seed gives the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from hlo_cli.ir.layout import FLOAT_FORMATS, PRIMITIVE_TYPES

SIGNED = ("s4", "s8", "s16", "s32", "s64")
UNSIGNED = ("u4", "u8", "u16", "u32", "u64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = ("f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz")
COMPLEX = ("c64", "c128")
Wide = npt.NDArray[np.float64]
REAL = (*INTEGERS, *FLOATS)


@dataclass(frozen=True)
class Program:
    """A module of one operation; `family` says how its results may differ."""

    family: str
    opcode: str
    text: str
    types: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    ranges: tuple[tuple[int, int] | None, ...] = ()
    terms: int = 1
    """The most terms of a sum."""

    def condition(self, arguments: Sequence[npt.NDArray[np.generic]], solution: npt.NDArray[np.generic]) -> Wide:
        """How much a solution may be off for each unit of roundoff: `n |A^-1| |A| |x|`, by elements."""
        x = np.abs(solution.astype(np.complex128))
        if self.opcode != "triangular-solve":
            return np.asarray(8 * solution.shape[-1] * x.max(initial=1))
        matrix = arguments[0].astype(np.complex128)
        matrix = np.tril(matrix) if "lower=true" in self.text else np.triu(matrix)
        size = matrix.shape[-1]
        if "unit_diagonal=true" in self.text:
            matrix = np.where(np.eye(size, dtype=bool), 1, matrix)
        if "transpose_a=NO" not in self.text:
            matrix = np.swapaxes(matrix, -1, -2)
        bound = np.abs(np.linalg.inv(matrix)), np.abs(matrix)
        found = bound[0] @ bound[1] @ x if "left_side=true" in self.text else x @ bound[1] @ bound[0]
        return np.asarray(size * found)

    def arguments(self, seed: int) -> list[npt.NDArray[np.generic]]:
        """Values of the parameters, as numpy holds them; floats of 8 bits and bf16 as float32 of their values."""
        random = np.random.default_rng(seed)
        ranges = self.ranges or (None,) * len(self.types)
        return [values(random, *each) for each in zip(self.types, self.sizes, ranges, strict=True)]


def values(
    random: np.random.Generator, kind: str, sizes: tuple[int, ...], within: tuple[int, int] | None
) -> npt.NDArray[np.generic]:
    """Random values of a type, with special ones among them."""
    from hlo_cli.analysis.semantics.typed_values import carrier, rounded

    element = PRIMITIVE_TYPES[kind]
    if kind == "pred":
        return random.integers(0, 2, sizes).astype(bool)
    if element.kind in ("signed", "unsigned"):
        low = -(1 << (element.bits - 1)) if element.kind == "signed" else 0
        high = (1 << (element.bits - (element.kind == "signed"))) - 1
        if within is not None:
            low, high = max(low, within[0]), min(high, within[1])
        elif random.random() < 0.6:
            low, high = max(low, -9), min(high, 9)
        found = random.integers(low, high, sizes, dtype=carrier(element).str, endpoint=True)
        if within is None and random.random() < 0.3:
            ends = [low, low + 1, high - 1, high, 0, 1, element.bits - 1, element.bits, -1, -element.bits]
            special = np.array([each for each in ends if low <= each <= high], found.dtype)
            found = np.where(random.random(sizes) < 0.5, random.choice(special, sizes), found)
        return found
    if element.kind == "complex":
        parts = [values(random, "f32" if kind == "c64" else "f64", sizes, within) for _ in range(2)]
        result = np.empty(sizes, carrier(element))
        result.real, result.imag = parts
        return result
    found = random.standard_normal(sizes) * random.choice([1.0, 1.0, 10.0])
    if within is None and random.random() < 0.3:
        chosen = random.random(sizes) < 0.3
        found = np.where(chosen, random.choice(_specials(kind), sizes), found)
    return rounded(np.asarray(found, np.float64 if kind == "f64" else np.float32), kind)


def _specials(kind: str) -> Wide:
    """Values at which rules differ: zeros, infinities, NaN, halves, and the ends of the type and of other types."""
    form = FLOAT_FORMATS[kind]
    largest = np.ldexp(2.0 - np.ldexp(1.0, -form.mantissa_bits), form.bias if form.bits > 8 else 7)
    smallest = np.ldexp(1.0, 1 - form.bias)
    above = 1 + np.ldexp(1.0, -form.mantissa_bits)
    ends = [
        largest,
        smallest,
        above,
        65504.0,
        2.0**31,
        2.0**63,
        127.5,
        1e30,
        1e-30,
        0.49999997,
        2.5,
        1.5,
        0.5,
        1.0,
        0.0,
    ]
    return np.array([*ends, *np.negative(ends), np.inf, -np.inf, np.nan])


def typed(kind: str, sizes: tuple[int, ...]) -> str:
    """A shape as HLO writes it."""
    return f"{kind}[{','.join(map(str, sizes))}]"


def drawn(random: Random, rank: int | None = None, most: int = 5, least: int = 1) -> tuple[int, ...]:
    """Random sizes."""
    rank = random.choice((0, 1, 1, 2, 2, 3)) if rank is None else rank
    return tuple(random.choice((least, 2, 3, most, 7)) for _ in range(rank))


def module_of(result: str, call: str, parameters: list[tuple[str, tuple[int, ...]]], before: str = "") -> str:
    """A module with one instruction, after its parameters and the computations `before` it."""
    lines = [f"  p{at} = {typed(kind, sizes)} parameter({at})" for at, (kind, sizes) in enumerate(parameters)]
    return "\n".join(["HloModule m", before, "ENTRY e {", *lines, f"  ROOT r = {result} {call}", "}", ""])


def elementwise(random: Random) -> Program:
    """An elementwise opcode with a type it takes."""
    opcodes = {
        "add subtract multiply": (*REAL, *COMPLEX, *NARROW), "divide": (*REAL, *COMPLEX), "remainder": REAL,
        "maximum minimum": REAL, "power": (*INTEGERS, "f32", "f64"), "and or xor": (*INTEGERS, "pred"),
        "shift-left shift-right-logical shift-right-arithmetic": INTEGERS, "atan2": ("f32", "f64"),
        "abs negate": (*SIGNED, *FLOATS), "not": (*INTEGERS, "pred"), "sign": (*SIGNED, *FLOATS),
        "popcnt count-leading-zeros": INTEGERS, "ceil floor round-nearest-afz round-nearest-even": FLOATS,
        "is-finite": FLOATS, "real imag": COMPLEX,
        "exponential log tanh sine cosine tan logistic sqrt rsqrt cbrt erf": ("f16", "bf16", "f32", "f64"),
        "exponential-minus-one log-plus-one": ("f32", "f64"),
    }  # fmt: skip
    names, kinds = random.choice(list(opcodes.items()))
    opcode, kind, sizes = random.choice(names.split()), random.choice(kinds), drawn(random)
    count = 2 if names in {
        "add subtract multiply", "divide", "remainder", "maximum minimum", "power", "and or xor", "atan2",
        "shift-left shift-right-logical shift-right-arithmetic",
    } else 1  # fmt: skip
    result = {"is-finite": "pred", "real": "f32" if kind == "c64" else "f64", "imag": "f32" if kind == "c64" else "f64"}
    shape = typed(result.get(opcode, kind), sizes)
    operands = ", ".join(f"p{at}" for at in range(count))
    family = "exact" if kind not in (*FLOATS, *COMPLEX, *NARROW) else "rounded"
    if opcode in ("maximum", "minimum", "abs", "negate", "ceil", "floor", "sign", "is-finite", "real", "imag"):
        family = "exact"
    text = module_of(shape, f"{opcode}({operands})", [(kind, sizes)] * count)
    return Program(family, opcode, text, (kind,) * count, (sizes,) * count)


def comparing(random: Random) -> Program:
    """compare, select, or clamp."""
    kind, sizes = random.choice(REAL), drawn(random)
    match random.choice(("compare", "compare", "select", "clamp")):
        case "compare":
            direction = random.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))
            total = ", type=TOTALORDER" if kind in FLOATS and random.random() < 0.4 else ""
            text = module_of(
                typed("pred", sizes), f"compare(p0, p1), direction={direction}{total}", [(kind, sizes)] * 2
            )
            return Program("exact", "compare", text, (kind,) * 2, (sizes,) * 2)
        case "select":
            given = [("pred", sizes), (kind, sizes), (kind, sizes)]
            return Program("exact", "select", module_of(typed(kind, sizes), "select(p0, p1, p2)", given),
                           ("pred", kind, kind), (sizes,) * 3)  # fmt: skip
        case _:
            bound = sizes if random.random() < 0.5 else ()
            given = [(kind, bound), (kind, sizes), (kind, bound)]
            return Program("exact", "clamp", module_of(typed(kind, sizes), "clamp(p0, p1, p2)", given),
                           (kind,) * 3, (bound, sizes, bound))  # fmt: skip


def converting(random: Random) -> Program:
    """convert, bitcast-convert, or reduce-precision."""
    sizes = drawn(random)
    every = (*REAL, *NARROW, "pred")
    match random.choice(("convert", "convert", "bitcast-convert", "reduce-precision")):
        case "convert":
            source, target = random.choice((*every, *COMPLEX)), random.choice((*every, *COMPLEX))
            target = "s8" if source in COMPLEX and target == "pred" else target  # XLA:CPU crashes
            text = module_of(typed(target, sizes), "convert(p0)", [(source, sizes)])
            return Program("exact", "convert", text, (source,), (sizes,))
        case "bitcast-convert":
            source, target = random.choice(every[:-1]), random.choice(every[:-1])
            a, b = PRIMITIVE_TYPES[source].bits, PRIMITIVE_TYPES[target].bits
            result = sizes if a == b else (*sizes, a // b) if a > b else sizes
            given = (*sizes, b // a) if b > a else sizes
            text = module_of(typed(target, result), "bitcast-convert(p0)", [(source, given)])
            return Program("bits", "bitcast-convert", text, (source,), (given,))
        case _:
            kind = random.choice(("f16", "bf16", "f32", "f64"))
            bits = f"exponent_bits={random.randint(2, 8)}, mantissa_bits={random.randint(1, 10)}"
            text = module_of(typed(kind, sizes), f"reduce-precision(p0), {bits}", [(kind, sizes)])
            return Program("exact", "reduce-precision", text, (kind,), (sizes,))


def moving(random: Random) -> Program:
    """Opcodes that move elements."""
    kind = random.choice((*REAL, "pred", "c64"))
    rank = random.choice((1, 2, 3))
    sizes = drawn(random, rank)
    match random.choice(
        "broadcast transpose reverse concatenate slice pad iota dynamic-slice dynamic-update-slice".split()
    ):
        case "broadcast":
            result = drawn(random, 3)
            dims = sorted(random.sample(range(3), random.choice((0, 1, 2))))
            given = tuple(result[at] for at in dims)
            call = f"broadcast(p0), dimensions={{{','.join(map(str, dims))}}}"
            return Program(
                "exact", "broadcast", module_of(typed(kind, result), call, [(kind, given)]), (kind,), (given,)
            )
        case "transpose":
            order = random.sample(range(rank), rank)
            result = tuple(sizes[at] for at in order)
            call = f"transpose(p0), dimensions={{{','.join(map(str, order))}}}"
            return Program(
                "exact", "transpose", module_of(typed(kind, result), call, [(kind, sizes)]), (kind,), (sizes,)
            )
        case "reverse":
            dims = random.sample(range(rank), random.randint(1, rank))
            call = f"reverse(p0), dimensions={{{','.join(map(str, dims))}}}"
            return Program("exact", "reverse", module_of(typed(kind, sizes), call, [(kind, sizes)]), (kind,), (sizes,))
        case "concatenate":
            at = random.randrange(rank)
            parts = [tuple(random.randint(1, 4) if n == at else s for n, s in enumerate(sizes)) for _ in range(3)]
            result = tuple(sum(part[at] for part in parts) if n == at else s for n, s in enumerate(sizes))
            text = module_of(
                typed(kind, result), f"concatenate(p0, p1, p2), dimensions={{{at}}}", [(kind, p) for p in parts]
            )
            return Program("exact", "concatenate", text, (kind,) * 3, tuple(parts))
        case "slice":
            ranges = []
            for size in sizes:
                start = random.randrange(size)
                ranges.append((start, random.randint(start + 1, size), random.choice((1, 1, 2, 3))))
            result = tuple(-(-(limit - start) // stride) for start, limit, stride in ranges)
            words = ", ".join(f"[{a}:{b}:{c}]" for a, b, c in ranges)
            return Program("exact", "slice", module_of(typed(kind, result), f"slice(p0), slice={{{words}}}", [(kind, sizes)]),
                           (kind,), (sizes,))  # fmt: skip
        case "pad":
            config = [(random.randint(-2, 3), random.randint(-2, 3), random.choice((0, 0, 1, 2))) for _ in sizes]
            result = tuple(
                max(0, a + (size - 1) * (c + 1) + 1 + b) for size, (a, b, c) in zip(sizes, config, strict=True)
            )
            words = "x".join(f"{a}_{b}_{c}" for a, b, c in config)
            if any(a + (size - 1) * (c + 1) + 1 + b < 0 for size, (a, b, c) in zip(sizes, config, strict=True)):
                return moving(random)
            text = module_of(typed(kind, result), f"pad(p0, p1), padding={words}", [(kind, sizes), (kind, ())])
            return Program("exact", "pad", text, (kind, kind), (sizes, ()))
        case "iota":
            at = random.randrange(rank)
            kind = random.choice(REAL)
            return Program("exact", "iota", module_of(typed(kind, sizes), f"iota(), iota_dimension={at}", []), (), ())
        case "dynamic-slice":
            result = tuple(random.randint(1, size) for size in sizes)
            index = random.choice(("s32", "u32", "s8", "u8", "s64"))
            names = ", ".join(f"p{at + 1}" for at in range(rank))
            call = f"dynamic-slice(p0, {names}), dynamic_slice_sizes={{{','.join(map(str, result))}}}"
            text = module_of(typed(kind, result), call, [(kind, sizes), *[(index, ())] * rank])
            return Program("exact", "dynamic-slice", text, (kind, *[index] * rank), (sizes, *[()] * rank))
        case _:
            update = tuple(random.randint(1, size) for size in sizes)
            index = random.choice(("s32", "u32", "s8", "u8", "s64"))
            names = ", ".join(f"p{at + 2}" for at in range(rank))
            text = module_of(typed(kind, sizes), f"dynamic-update-slice(p0, p1, {names})",
                           [(kind, sizes), (kind, update), *[(index, ())] * rank])  # fmt: skip
            return Program("exact", "dynamic-update-slice", text, (kind, kind, *[index] * rank),
                           (sizes, update, *[()] * rank))  # fmt: skip


def reducer(kind: str, opcode: str) -> str:
    """A computation of two scalars."""
    return f"f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = {kind}[] {opcode}(a, b) }}\n"


_IDENTITY = {"add": "0", "multiply": "1"}


def reducing(random: Random) -> Program:
    """reduce or reduce-window with a plain reducer; initial values are identities."""
    kind = random.choice(("s32", "s8", "u16", "f32", "f64", "bf16", "pred"))
    opcode = (
        random.choice(("add", "multiply", "maximum", "minimum")) if kind != "pred" else random.choice(("and", "or"))
    )
    rank = random.choice((1, 2, 3))
    sizes = tuple(random.choice((2, 3, 5, 7, 9)) for _ in range(rank))
    family = "sums" if kind in FLOATS and opcode in ("add", "multiply") else "exact"
    initial = {"and": "true", "or": "false", **_IDENTITY}.get(opcode) or extreme(kind, opcode)
    lines = [f"  p0 = {typed(kind, sizes)} parameter(0)", f"  i = {kind}[] constant({initial})"]
    if random.random() < 0.5:
        dims = sorted(random.sample(range(rank), random.randint(1, rank)))
        result = tuple(size for at, size in enumerate(sizes) if at not in dims)
        call = f"reduce(p0, i), dimensions={{{','.join(map(str, dims))}}}, to_apply=f"
        name = "reduce"
    else:
        window: list[tuple[int, ...]] = []
        extents: list[int] = []
        for size in sizes:
            extent, stride = random.randint(1, 3), random.choice((1, 1, 2))
            low, high = random.randint(0, 2), random.randint(0, 2)
            base, dilation = random.choice((1, 1, 2)), random.choice((1, 1, 2))
            free = (size - 1) * base + 1 + low + high - ((extent - 1) * dilation + 1)
            if free < 0:
                return reducing(random)
            window.append((extent, stride, low, high, base, dilation))
            extents.append(free // stride + 1)
        fields = (
            ("size", [w[0] for w in window]), ("stride", [w[1] for w in window]),
            ("pad", [f"{w[2]}_{w[3]}" for w in window]), ("lhs_dilate", [w[4] for w in window]),
            ("rhs_dilate", [w[5] for w in window]),
        )  # fmt: skip
        words = " ".join(f"{key}={'x'.join(map(str, each))}" for key, each in fields)
        call, name = f"reduce-window(p0, i), window={{{words}}}, to_apply=f", "reduce-window"
        result = tuple(extents)
    text = "\n".join(["HloModule m", reducer(kind, opcode), "ENTRY e {", *lines,
                      f"  ROOT r = {typed(kind, result)} {call}", "}", ""])  # fmt: skip
    terms = int(np.prod(sizes))
    return Program(family, name, text, (kind,), (sizes,), ((-9, 9) if kind in FLOATS else None,), terms)


def extreme(kind: str, opcode: str) -> str:
    """The identity of maximum or minimum."""
    element = PRIMITIVE_TYPES[kind]
    if element.kind == "float":
        return "-inf" if opcode == "maximum" else "inf"
    low = -(1 << (element.bits - 1)) if element.kind == "signed" else 0
    return str(low if opcode == "maximum" else (1 << (element.bits - (element.kind == "signed"))) - 1)


def contracting(random: Random) -> Program:
    """dot or convolution."""
    kind = random.choice(("f32", "f64", "s32", "bf16", "c64"))
    if random.random() < 0.5:
        batch, left, right, inner = (drawn(random, random.choice((0, 1, 1)), 4) for _ in range(4))
        x, y = [*batch, *left, *inner], [*batch, *right, *inner]
        names = [*("b" * len(batch)), *("l" * len(left)), *("i" * len(inner))]
        other = [*("b" * len(batch)), *("r" * len(right)), *("i" * len(inner))]
        dims = ", ".join(
            f"{side}_{word}_dims={{{','.join(str(at) for at, name in enumerate(each) if name == letter)}}}"
            for side, each in (("lhs", names), ("rhs", other))
            for word, letter in (("batch", "b"), ("contracting", "i"))
        )
        result = (*batch, *left, *right)
        text = module_of(typed(kind, result), f"dot(p0, p1), {dims}", [(kind, tuple(x)), (kind, tuple(y))])
        family = "exact" if kind == "s32" else "sums"
        return Program(family, "dot", text, (kind, kind), (tuple(x), tuple(y)), ((-9, 9),) * 2, int(np.prod(inner)))
    spatial = random.choice((1, 2))
    groups = random.choice((1, 1, 2))
    count, features, outputs = random.randint(1, 3), groups * random.randint(1, 3), groups * random.randint(1, 3)
    window: list[tuple[int, ...]] = []
    sizes: list[int] = []
    extents: list[int] = []
    for _ in range(spatial):
        size, extent, stride = random.randint(3, 7), random.randint(1, 3), random.choice((1, 2))
        low, high = random.randint(-1, 2), random.randint(0, 2)
        base, dilation, flip = random.choice((1, 1, 2)), random.choice((1, 1, 2)), random.choice((0, 0, 1))
        free = (size - 1) * base + 1 + low + high - ((extent - 1) * dilation + 1)
        if free < 0:
            return contracting(random)
        window.append((extent, stride, low, high, base, dilation, flip))
        sizes.append(size)
        extents.append(free // stride + 1)
    words = " ".join(
        f"{key}={'x'.join(map(str, each))}"
        for key, each in (
            ("size", [w[0] for w in window]), ("stride", [w[1] for w in window]),
            ("pad", [f"{w[2]}_{w[3]}" for w in window]), ("lhs_dilate", [w[4] for w in window]),
            ("rhs_dilate", [w[5] for w in window]), ("rhs_reversal", [w[6] for w in window]),
        )
    )  # fmt: skip
    kind = random.choice(("f32", "f64", "s32", "bf16"))
    digits = "01"[:spatial]
    labels = f"b{digits}f_{digits}io->b{digits}f"
    image = (count, *sizes, features)
    kernel = (*(each[0] for each in window), features // groups, outputs)
    call = f"convolution(p0, p1), window={{{words}}}, dim_labels={labels}, feature_group_count={groups}"
    text = module_of(typed(kind, (count, *extents, outputs)), call, [(kind, image), (kind, kernel)])
    family, terms = "exact" if kind == "s32" else "sums", int(np.prod(kernel[:-1]))
    return Program(family, "convolution", text, (kind, kind), (image, kernel), ((-9, 9),) * 2, terms)


def ordering(random: Random) -> Program:
    """sort of one or two operands, stable."""
    kind = random.choice(("s32", "f32", "u8", "bf16", "f64"))
    rank = random.choice((1, 2))
    sizes = tuple(random.choice((1, 2, 5, 8, 13)) for _ in range(rank))
    at, direction = random.randrange(rank), random.choice(("LT", "GT"))
    total = ", type=TOTALORDER" if kind in FLOATS else ""
    shape, index = typed(kind, sizes), typed("s32", sizes)
    text = "\n".join([
        "HloModule m",
        f"f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)",
        f"  ROOT l = pred[] compare(a, b), direction={direction}{total} }}",
        "ENTRY e {", f"  p0 = {shape} parameter(0)", f"  p1 = {index} parameter(1)",
        f"  ROOT r = ({shape}, {index}) sort(p0, p1), dimensions={{{at}}}, is_stable=true, to_apply=f", "}", "",
    ])  # fmt: skip
    return Program("exact", "sort", text, (kind, "s32"), (sizes, sizes))


def listed(numbers: Sequence[int | str]) -> str:
    """Numbers or names between braces."""
    return "{" + ",".join(map(str, numbers)) + "}"


def gathering(random: Random) -> Program:
    """gather or scatter with random dimension numbers."""
    kind = random.choice(("s32", "f32", "u8", "bf16"))
    rank = random.choice((1, 2, 3))
    sizes = tuple(random.choice((2, 3, 5)) for _ in range(rank))
    batch = tuple(random.choice((1, 2, 4)) for _ in range(random.choice((0, 1, 2))))
    mapped = random.sample(range(rank), random.randint(1, rank))
    collapsed = sorted(random.sample(range(rank), random.randint(0, rank)))
    window = [1 if at in collapsed else random.randint(1, size) for at, size in enumerate(sizes)]
    kept = [window[at] for at in range(rank) if at not in collapsed]
    total = len(batch) + len(kept)
    places = sorted(random.sample(range(total), len(kept)))
    result: list[int] = []
    rest, inner = list(batch), list(kept)
    result += [inner.pop(0) if at in places else rest.pop(0) for at in range(total)]
    vector = random.randint(0, len(batch))
    indices = (*batch[:vector], len(mapped), *batch[vector:])
    index = random.choice(("s32", "s64", "u32"))
    if random.random() < 0.5:
        call = (
            f"gather(p0, p1), offset_dims={listed(places)}, collapsed_slice_dims={listed(collapsed)}, "
            f"start_index_map={listed(mapped)}, index_vector_dim={vector}, slice_sizes={listed(window)}"
        )
        text = module_of(typed(kind, tuple(result)), call, [(kind, sizes), (index, indices)])
        return Program("exact", "gather", text, (kind, index), (sizes, indices), (None, (0, 6)))
    opcode = random.choice(("add", "maximum", "minimum"))
    call = (
        f"scatter(p0, p1, p2), update_window_dims={listed(places)}, inserted_window_dims={listed(collapsed)}, "
        f"scatter_dims_to_operand_dims={listed(mapped)}, index_vector_dim={vector}, to_apply=f"
    )
    kind = random.choice(("s32", "u8"))
    text = module_of(typed(kind, sizes), call, [(kind, sizes), (index, indices), (kind, tuple(result))],
                   reducer(kind, opcode))  # fmt: skip
    return Program("exact", "scatter", text, (kind, index, kind), (sizes, indices, tuple(result)), (None, (0, 6), None))


def random_bits(random: Random) -> Program:
    """rng-bit-generator."""
    kind, sizes = random.choice(("u8", "u16", "u32", "u64")), drawn(random)
    algorithm = random.choice(("rng_three_fry", "rng_philox", "rng_default"))
    state = 2 if algorithm == "rng_three_fry" else random.choice((2, 3))
    shape = f"(u64[{state}], {typed(kind, sizes)})"
    text = module_of(shape, f"rng-bit-generator(p0), algorithm={algorithm}", [("u64", (state,))])
    return Program("exact", "rng-bit-generator", text, ("u64",), ((state,),))


def transforming(random: Random) -> Program:
    """fft, cholesky, or triangular-solve."""
    if random.random() < 0.5:
        kind = random.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
        part, whole = random.choice((("f32", "c64"), ("f64", "c128")))
        dims = random.choice((1, 1, 2))
        lengths = tuple(random.choice((1, 2, 3, 4, 5, 8, 9)) for _ in range(dims))
        lead = drawn(random, random.choice((0, 1)))
        half = (*lead, *lengths[:-1], lengths[-1] // 2 + 1)
        source, target = {"RFFT": (part, whole), "IRFFT": (whole, part)}.get(kind, (whole, whole))
        given = half if kind == "IRFFT" else (*lead, *lengths)
        result = half if kind == "RFFT" else (*lead, *lengths)
        call = f"fft(p0), fft_type={kind}, fft_length={listed(lengths)}"
        text = module_of(typed(target, result), call, [(source, given)])
        return Program("sums", "fft", text, (source,), (given,), ((-9, 9),), int(np.prod(lengths)))
    size, columns = random.choice((1, 2, 3, 5)), random.choice((1, 3))
    kind = random.choice(("f32", "f64", *COMPLEX))
    left, lead = random.random() < 0.5, random.choice(((), (2,)))
    transposes = ("NO_TRANSPOSE", "TRANSPOSE", *(["ADJOINT"] if kind in COMPLEX else []))
    options = ", ".join((
        f"left_side={str(left).lower()}", f"lower={random.choice(('true', 'false'))}",
        f"unit_diagonal={random.choice(('true', 'false'))}", f"transpose_a={random.choice(transposes)}",
    ))  # fmt: skip
    matrix = (*lead, size, size)
    right = (*lead, size, columns) if left else (*lead, columns, size)
    text = module_of(typed(kind, right), f"triangular-solve(p0, p1), {options}", [(kind, matrix), (kind, right)])
    return Program("solved", "triangular-solve", text, (kind, kind), (matrix, right), ((-9, 9),) * 2)
