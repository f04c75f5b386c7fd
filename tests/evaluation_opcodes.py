"""Random modules for every pair of an opcode and an element type, of rank 0 to 5, with sizes 0 and 1 among them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

from evaluation_programs import COMPLEX, FLOATS, INTEGERS, NARROW, SIGNED, Program, listed, module_of, reducer, typed
from hlo_cli.ir.layout import PRIMITIVE_TYPES

NARROWEST = (*NARROW, "f8e4m3", "f8e3m4", "f4e2m1fn", "f8e8m0fnu")
WHOLE = ("s2", "u2", *INTEGERS)
EVERY = ("pred", *WHOLE, *FLOATS, *NARROWEST, *COMPLEX)
"""The element types that XLA:CPU takes and returns."""
PARTS = {"c64": "f32", "c128": "f64"}
ORDERED = ("pred", *WHOLE, *FLOATS, *NARROWEST)

FLOATING = (
    "acos acosh asin asinh atanh cbrt ceil cosine cosh erf exponential exponential-minus-one floor is-finite log "
    "log-plus-one logistic round-nearest-afz round-nearest-even rsqrt sine sinh sqrt tan tanh"
).split()
_EXACT_FLOATS = "abs ceil floor is-finite maximum minimum negate real imag round-nearest-afz round-nearest-even".split()


def sizes_of(random: Random, rank: int | None = None, *, least: int = 0, most: int = 160) -> tuple[int, ...]:
    """Sizes of a rank from 0 to 5, of 0 and 1 now and then, and of no more elements than `most`."""
    rank = random.randint(0, 5) if rank is None else rank
    found = [random.choice((1, 2, 3, 5, 7, 8)) for _ in range(rank)]
    if rank and random.random() < 0.12:
        found[random.randrange(rank)] = least
    while prod(found) > most:
        at = found.index(max(found))
        found[at] = max(1, found[at] // 2)
    return tuple(found)


def _is_float(kind: str) -> bool:
    return kind in FLOATS or kind in NARROWEST


def elementwise(opcode: str, kind: str, random: Random) -> Program:
    """An elementwise opcode of one to three operands."""
    sizes = sizes_of(random)
    count = 3 if opcode in ("clamp", "select") else 2 if opcode in _BINARY else 1
    kinds = [kind] * count
    result, extra = kind, ""
    shapes = [sizes] * count
    match opcode:
        case "is-finite":
            result = "pred"
        case "real" | "imag" | "abs":
            result = PARTS.get(kind, kind)
        case "complex":
            result = "c64" if kind == "f32" else "c128"
        case "compare":
            result = "pred"
            directions = ("EQ", "NE") if kind in COMPLEX else ("EQ", "NE", "LT", "LE", "GT", "GE")
            extra = f", direction={random.choice(directions)}"
            if _is_float(kind) and random.random() < 0.4:
                extra += ", type=TOTALORDER"
        case "select":
            kinds[0] = "pred"
            shapes[0] = random.choice((sizes, ()))
        case "clamp":
            bound = random.choice((sizes, ()))
            shapes = [bound, sizes, bound]
        case "reduce-precision":
            extra = f", exponent_bits={random.randint(2, 11)}, mantissa_bits={random.randint(1, 23)}"
    family = "rounded"
    if opcode in _EXACT_FLOATS or opcode in _MOVING or not (_is_float(kind) or kind in COMPLEX):
        family = "exact"
    elif kind in COMPLEX:
        family = "exact" if opcode in ("add", "subtract") else "complex"
    call = f"{opcode}({', '.join(f'p{at}' for at in range(count))}){extra}"
    text = module_of(typed(result, sizes), call, list(zip(kinds, shapes, strict=True)))
    ranges = ((-2, 2),) * count if family == "complex" else ()
    return Program(family, opcode, text, tuple(kinds), tuple(shapes), ranges)


_BINARY = (
    "add and atan2 compare complex divide maximum minimum multiply or power remainder shift-left "
    "shift-right-arithmetic shift-right-logical subtract xor"
).split()
_MOVING = ("clamp", "compare", "complex", "select", "reduce-precision")


def moving(opcode: str, kind: str, random: Random) -> Program:
    """An opcode that moves elements of any type."""
    sizes = sizes_of(random, random.randint(0 if opcode in _OF_SCALARS else 1, 5))
    rank = len(sizes)
    given, kinds, result, extra = [sizes], [kind], sizes, ""
    ranges: list[tuple[int, int] | None] = [None]
    match opcode:
        case "broadcast":
            result = sizes_of(random)
            dims = sorted(random.sample(range(len(result)), random.randint(0, len(result))))
            given, extra = [tuple(result[at] for at in dims)], f", dimensions={listed(dims)}"
        case "transpose":
            order = random.sample(range(rank), rank)
            result, extra = tuple(sizes[at] for at in order), f", dimensions={listed(order)}"
        case "reverse":
            extra = f", dimensions={listed(random.sample(range(rank), random.randint(0, rank)))}"
        case "reshape":
            result = random.choice(((prod(sizes),), (1, *sizes), sizes[::-1], (*sizes, 1, 1)))
        case "concatenate":
            at = random.randrange(rank)
            given = [tuple(random.randint(0, 4) if n == at else s for n, s in enumerate(sizes)) for _ in range(3)]
            kinds, ranges = [kind] * 3, [None] * 3
            result = tuple(sum(part[at] for part in given) if n == at else s for n, s in enumerate(sizes))
            extra = f", dimensions={{{at}}}"
        case "slice":
            cuts = [(a := random.randint(0, size), random.randint(a, size), random.randint(1, 3)) for size in sizes]
            result = tuple(-(-(limit - start) // stride) for start, limit, stride in cuts)
            extra = f", slice={{{', '.join(f'[{a}:{b}:{c}]' for a, b, c in cuts)}}}"
        case "pad":
            config = []
            for size in sizes:
                inside, low = random.choice((0, 0, 1, 2)), random.randint(-2, 3)
                whole = max(0, size + (size - 1) * inside)
                config.append((low, random.randint(max(-2, -whole - low), 3), inside))
            if any(max(0, s + (s - 1) * c) + a + b < 0 for s, (a, b, c) in zip(sizes, config, strict=True)):
                return moving(opcode, kind, random)
            result = tuple(max(0, s + (s - 1) * c) + a + b for s, (a, b, c) in zip(sizes, config, strict=True))
            given, kinds, ranges = [sizes, ()], [kind, kind], [None, None]
            extra = f", padding={'x'.join(f'{a}_{b}_{c}' for a, b, c in config)}"
        case "dynamic-slice" | "dynamic-update-slice":
            part = tuple(random.randint(0, size) for size in sizes)
            index = random.choice(("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"))
            is_update = opcode == "dynamic-update-slice"
            given = [sizes, *([part] if is_update else []), *[()] * rank]
            kinds = [kind, *([kind] if is_update else []), *[index] * rank]
            result = sizes if is_update else part
            extra = "" if is_update else f", dynamic_slice_sizes={listed(part)}"
            ranges = [None] * len(given)
    call = f"{opcode}({', '.join(f'p{at}' for at in range(len(given)))}){extra}"
    text = module_of(typed(kind, result), call, list(zip(kinds, given, strict=True)))
    return Program("exact", opcode, text, tuple(kinds), tuple(given), tuple(ranges))


_OF_SCALARS = ("broadcast", "copy", "opt-barrier", "reshape", "transpose")


def iota(opcode: str, kind: str, random: Random) -> Program:
    """Positions, which may be more than the type has numbers."""
    sizes = sizes_of(random, random.randint(1, 5))
    text = module_of(typed(kind, sizes), f"iota(), iota_dimension={random.randrange(len(sizes))}", [])
    return Program("exact", "iota", text, (), ())


def folding(opcode: str, kind: str, random: Random) -> Program:
    """reduce and reduce-window over any dimensions, with the identity of the reducer."""
    named: tuple[str, ...] = ("add", "multiply", "maximum", "minimum")
    named = (
        ("and", "or", "xor")
        if kind == "pred"
        else named[:2]
        if kind in COMPLEX
        else named[1:]
        if kind == "f8e8m0fnu"
        else named
    )
    name = random.choice(named)
    sizes = sizes_of(random, random.randint(0 if opcode == "reduce" else 1, 5))
    initial = {"and": "true", "or": "false", "xor": "false", "add": "0", "multiply": "1"}.get(name) or _least(
        kind, name
    )
    if kind in COMPLEX:
        initial = f"({initial}, 0)"
    if opcode == "reduce":
        dims = sorted(random.sample(range(len(sizes)), random.randint(0, len(sizes))))
        result, extra = tuple(s for at, s in enumerate(sizes) if at not in dims), f"dimensions={listed(dims)}"
        terms = prod(sizes[at] for at in dims)
    else:
        extents = [random.randint(1, max(1, min(3, size))) for size in sizes]
        strides = [random.randint(1, 2) for _ in sizes]
        pads = [(random.randint(0, 1), random.randint(0, 1)) for _ in sizes]
        result = tuple(
            max(0, (s + a + b - e) // d + 1) for s, e, d, (a, b) in zip(sizes, extents, strides, pads, strict=True)
        )
        words = "x".join(map(str, extents)), "x".join(map(str, strides)), "x".join(f"{a}_{b}" for a, b in pads)
        extra, terms = f"window={{size={words[0]} stride={words[1]} pad={words[2]}}}", prod(extents)
    text = module_of(typed(kind, result), f"{opcode}(p0, i), {extra}, to_apply=f", [(kind, sizes)], reducer(kind, name))
    text = text.replace("  ROOT r", f"  i = {kind}[] constant({initial})\n  ROOT r")
    is_sum = (_is_float(kind) or kind in COMPLEX) and name in ("add", "multiply")
    return Program(
        "sums" if is_sum else "exact", opcode, text, (kind,), (sizes,), ((-2, 2) if is_sum else None,), terms
    )


def _least(kind: str, name: str) -> str:
    """The identity of maximum or minimum."""
    element = PRIMITIVE_TYPES[kind]
    if element.kind == "float":
        largest = {
            "f8e4m3fn": "448",
            "f8e4m3fnuz": "240",
            "f8e4m3b11fnuz": "30",
            "f8e5m2fnuz": "57344",
            "f4e2m1fn": "6",
        }
        found = largest.get(kind, "inf")
        if kind == "f8e8m0fnu":  # 2^-127 and 2^127: it has neither infinities nor signs
            return "5.877471754111438e-39" if name == "maximum" else "1.7014118346046923e+38"
        return f"-{found}" if name == "maximum" else found
    low = -(1 << (element.bits - 1)) if element.kind == "signed" else 0
    return str(low if name == "maximum" else (1 << (element.bits - (element.kind == "signed"))) - 1)


def sorting(opcode: str, kind: str, random: Random) -> Program:
    """sort with a second operand that shows stability, and topk."""
    if opcode == "topk":
        rank = random.randint(1, 3)
        sizes = sizes_of(random, rank, least=1)
        most = random.randint(1, sizes[-1])
        result = (*sizes[:-1], most)
        shape = f"({typed(kind, result)}, {typed('s32', result)})"
        text = module_of(shape, f"topk(p0), k={most}, largest=true", [(kind, sizes)])
        return Program("exact", "topk", text, (kind,), (sizes,), ((-9, 9),) if _is_float(kind) else ())
    sizes = sizes_of(random, random.randint(1, 5))
    at, direction = random.randrange(len(sizes)), random.choice(("LT", "GT"))
    total = ", type=TOTALORDER" if _is_float(kind) else ""
    before = (
        f"f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)\n"
        f"  ROOT l = pred[] compare(a, b), direction={direction}{total} }}\n"
    )
    pair = f"({typed(kind, sizes)}, {typed('s32', sizes)})"
    call = f"sort(p0, p1), dimensions={{{at}}}, is_stable=true, to_apply=f"
    text = module_of(pair, call, [(kind, sizes), ("s32", sizes)], before)
    return Program("exact", "sort", text, (kind, "s32"), (sizes, sizes))


def indexing(opcode: str, kind: str, random: Random) -> Program:
    """gather and scatter of windows, with indices within and out of bounds."""
    rank = random.randint(1, 4)
    sizes = sizes_of(random, rank, most=100)
    batch = sizes_of(random, random.randint(0, 2), most=12)
    mapped = random.sample(range(rank), random.randint(int(opcode == "scatter"), rank))
    collapsed = sorted(at for at in range(rank) if sizes[at] and random.random() < 0.5)
    window = [1 if at in collapsed else random.randint(0, size) for at, size in enumerate(sizes)]
    kept = [window[at] for at in range(rank) if at not in collapsed]
    places = sorted(random.sample(range(len(batch) + len(kept)), len(kept)))
    rest, inner = list(batch), list(kept)
    result = tuple(inner.pop(0) if at in places else rest.pop(0) for at in range(len(batch) + len(kept)))
    vector = random.randint(0, len(batch))
    indices = (*batch[:vector], len(mapped), *batch[vector:])
    index = random.choice(("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"))
    within = (-2, 7)
    if opcode == "gather":
        call = (
            f"gather(p0, p1), offset_dims={listed(places)}, collapsed_slice_dims={listed(collapsed)}, "
            f"start_index_map={listed(mapped)}, index_vector_dim={vector}, slice_sizes={listed(window)}"
        )
        text = module_of(typed(kind, result), call, [(kind, sizes), (index, indices)])
        return Program("exact", "gather", text, (kind, index), (sizes, indices), (None, within))
    name = random.choice(("or", "and") if kind == "pred" else ("add", "multiply", "maximum", "minimum"))
    is_sum = (_is_float(kind) or kind in COMPLEX) and name in ("add", "multiply")
    name = random.choice(("maximum", "minimum")) if is_sum and kind not in COMPLEX else name
    call = (
        f"scatter(p0, p1, p2), update_window_dims={listed(places)}, inserted_window_dims={listed(collapsed)}, "
        f"scatter_dims_to_operand_dims={listed(mapped)}, index_vector_dim={vector}, to_apply=f"
    )
    before = reducer(kind, name)
    if kind in COMPLEX:
        before = f"f {{ a = {kind}[] parameter(0) ROOT b = {kind}[] parameter(1) }}\n"
    given = [(kind, sizes), (index, indices), (kind, result)]
    return Program("exact", "scatter", module_of(typed(kind, sizes), call, given, before),
                   (kind, index, kind), (sizes, indices, result), (None, within, None))  # fmt: skip


def contracting(opcode: str, kind: str, random: Random) -> Program:
    """dot with batch and several contracting dimensions; convolution without padding, in one or two dimensions."""
    is_exact = kind == "pred" or kind in WHOLE
    within = ((-2, 2) if not is_exact else None,) * 2
    if opcode == "dot":
        batch, left, right, inner = (sizes_of(random, random.choice((0, 1, 1, 2)), most=8) for _ in range(4))
        x, y = (*batch, *left, *inner), (*batch, *inner, *right)
        dims = ", ".join((
            f"lhs_batch_dims={listed(range(len(batch)))}", f"rhs_batch_dims={listed(range(len(batch)))}",
            f"lhs_contracting_dims={listed(range(len(batch) + len(left), len(x)))}",
            f"rhs_contracting_dims={listed(range(len(batch), len(batch) + len(inner)))}",
        ))  # fmt: skip
        text = module_of(typed(kind, (*batch, *left, *right)), f"dot(p0, p1), {dims}", [(kind, x), (kind, y)])
        return Program("exact" if is_exact else "sums", "dot", text, (kind, kind), (x, y), within, prod(inner))
    spatial = random.choice((1, 2))
    sizes, extents = [random.randint(3, 6) for _ in range(spatial)], [random.randint(1, 3) for _ in range(spatial)]
    strides = [random.randint(1, 2) for _ in range(spatial)]
    counts = [(size - extent) // stride + 1 for size, extent, stride in zip(sizes, extents, strides, strict=True)]
    batch_size, inputs, outputs = (random.randint(1, 3) for _ in range(3))
    digits = "01"[:spatial]
    x, w = (batch_size, *sizes, inputs), (*extents, inputs, outputs)
    window = f"size={'x'.join(map(str, extents))} stride={'x'.join(map(str, strides))}"
    call = f"convolution(p0, p1), window={{{window}}}, dim_labels=b{digits}f_{digits}io->b{digits}f"
    text = module_of(typed(kind, (batch_size, *counts, outputs)), call, [(kind, x), (kind, w)])
    family = "exact" if is_exact else "sums"
    return Program(family, "convolution", text, (kind, kind), (x, w), within, prod(w[:-1]))


def calling(opcode: str, kind: str, random: Random) -> Program:
    """Opcodes that call computations, on values of any type."""
    sizes = sizes_of(random)
    shape = typed(kind, sizes)
    match opcode:
        case "map":
            sizes = sizes or (3,)
            shape = typed(kind, sizes)
            before = (
                f"f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) e = pred[] compare(a, b), direction=NE\n"
                f"  ROOT r = {kind}[] select(e, b, a) }}\n"
            )
            call, given = f"map(p0, p1), dimensions={listed(range(len(sizes)))}, to_apply=f", [(kind, sizes)] * 2
            return Program("exact", "map", module_of(shape, call, given, before), (kind,) * 2, (sizes,) * 2)
        case "call":
            before = f"f {{ a = {shape} parameter(0) b = {shape} parameter(1) ROOT r = {shape} copy(b) }}\n"
            call, given = "call(p0, p1), to_apply=f", [(kind, sizes)] * 2
            return Program("exact", "call", module_of(shape, call, given, before), (kind,) * 2, (sizes,) * 2)
        case "conditional":
            before = (
                f"t {{ ROOT a = {shape} parameter(0) }}\nf {{ a = {shape} parameter(0) ROOT b = {shape} copy(a) }}\n"
            )
            call = "conditional(p0, p1, p2), branch_computations={t, f}"
            given = [("s32", ()), (kind, sizes), (kind, sizes)]
            text = module_of(shape, call, given, before)
            return Program("exact", opcode, text, ("s32", kind, kind), ((), sizes, sizes), ((-1, 2), None, None))
        case _:
            state = f"(s32[], {shape}, {shape})"
            text = f"""HloModule m
c {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant({random.randint(0, 4)})
  ROOT l = pred[] compare(i, n), direction=LT }}
b {{ p = {state} parameter(0)  i = s32[] get-tuple-element(p), index=0  x = {shape} get-tuple-element(p), index=1
  y = {shape} get-tuple-element(p), index=2  o = s32[] constant(1)  j = s32[] add(i, o)
  ROOT t = {state} tuple(j, y, x) }}
ENTRY e {{
  p0 = {shape} parameter(0)
  p1 = {shape} parameter(1)
  z = s32[] constant(0)
  t = {state} tuple(z, p0, p1)
  w = {state} while(t), condition=c, body=b
  ROOT r = {shape} get-tuple-element(w), index=1
}}
"""
            return Program("exact", "while", text, (kind,) * 2, (sizes,) * 2)


def choosing(opcode: str, kind: str, random: Random) -> Program:
    """select-and-scatter whose windows do not overlap."""
    extent, count = random.randint(1, 3), random.randint(1, 4)
    size = extent * count + random.randint(0, extent - 1)
    name = random.choice(("GE", "LE", "GT", "LT"))
    before = (
        f"s {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = pred[] compare(a, b), direction={name} }}\n"
        + reducer(kind, "or" if kind == "pred" else "add")
    )
    call = f"select-and-scatter(p0, p1, p2), window={{size={extent} stride={extent}}}, select=s, scatter=f"
    given = [(kind, (size,)), (kind, (count,)), (kind, ())]
    within = ((-9, 9), None, (0, 0)) if kind in WHOLE else ((-9, 9), (-9, 9), (-9, 9))
    family = "exact" if kind in WHOLE or kind == "pred" else "rounded"
    text = module_of(typed(kind, (size,)), call, given, before)
    return Program(family, opcode, text, (kind,) * 3, tuple(each for _, each in given), within)


def converting(opcode: str, kind: str, random: Random) -> Program:
    """convert and bitcast-convert to any type."""
    sizes, target = sizes_of(random), random.choice(EVERY)
    if opcode == "convert":
        target = "s8" if kind in COMPLEX and target == "pred" else target  # XLA:CPU crashes
        return Program(
            "exact", opcode, module_of(typed(target, sizes), "convert(p0)", [(kind, sizes)]), (kind,), (sizes,)
        )
    a, b = PRIMITIVE_TYPES[kind].bits, PRIMITIVE_TYPES[target].bits
    if "pred" in (kind, target) or {kind, target} & set(COMPLEX):
        return Program("bits", opcode, module_of(typed(kind, sizes), "bitcast-convert(p0)", [(kind, sizes)]),
                       (kind,), (sizes,))  # fmt: skip
    result = (*sizes, a // b) if a > b else sizes
    given = (*sizes, b // a) if b > a else sizes
    text = module_of(typed(target, result), "bitcast-convert(p0)", [(kind, given)])
    return Program("bits", opcode, text, (kind,), (given,))


def normalizing(opcode: str, kind: str, random: Random) -> Program:
    """Batch normalizations."""
    sizes = sizes_of(random, random.randint(1, 4), least=1)
    at = random.randrange(len(sizes))
    each = (sizes[at],)
    shapes = {"batch-norm-grad": [sizes, each, each, each, sizes], "batch-norm-training": [sizes, each, each]}
    given = shapes.get(opcode, [sizes, each, each, each, each])
    result = f"({typed(kind, sizes)}, {typed(kind, each)}, {typed(kind, each)})"
    call = f"{opcode}({', '.join(f'p{n}' for n in range(len(given)))}), epsilon=0.5, feature_index={at}"
    shape = typed(kind, sizes) if opcode == "batch-norm-inference" else result
    text = module_of(shape, call, [(kind, each) for each in given])
    variance = 3 if opcode == "batch-norm-grad" else 4
    if opcode != "batch-norm-training":  # it is not negative
        shape = typed(kind, each)
        text = text.replace(f"p{variance} = ", "q = ").replace(
            "  ROOT", f"  p{variance} = {shape} multiply(q, q)\n  ROOT"
        )
    ranges = tuple((-2, 2) for _ in given)
    return Program("norms", opcode, text, (kind,) * len(given), tuple(given), ranges, prod(sizes))


def drawing(opcode: str, kind: str, random: Random) -> Program:
    """Random bits of any integer type."""
    algorithm = random.choice(("rng_three_fry", "rng_philox", "rng_default"))
    state = 2 if algorithm == "rng_three_fry" else random.choice((2, 3))
    shape = f"(u64[{state}], {typed(kind, sizes_of(random))})"
    text = module_of(shape, f"{opcode}(p0), algorithm={algorithm}", [("u64", (state,))])
    return Program("exact", opcode, text, ("u64",), ((state,),))


def sized(opcode: str, kind: str, random: Random) -> Program:
    """An opcode on a value of dynamic size, whose result is made static: a sum with weights, and its sizes."""
    rows, columns = random.randint(2, 4), random.randint(2, 6)  # XLA takes a bound of 1 for a static size
    at = random.randint(0, 1)
    x = f"<={rows},{columns}" if at == 0 else f"{rows},<={columns}"
    before = ""
    match opcode:
        case "broadcast":
            shape, call = f"2,{x}", "broadcast(x), dimensions={1,2}"
        case "reshape":
            shape, call = random.choice(((f"1,{x}", "reshape(x)"), (f"<={rows * columns}", "reshape(x)")))
        case "dynamic-reshape":
            before = f"k = s32[] constant({columns if at == 0 else rows})  n = s32[] multiply(p1, k)"
            shape, call = f"<={rows * columns}", "dynamic-reshape(x, n)"
        case "transpose":
            shape, call = ",".join(reversed(x.split(","))), "transpose(x), dimensions={1,0}"
        case "pad":
            before = f"c = {kind}[] constant(7)"
            shape = f"<={rows + 3},{columns + 1}" if at == 0 else f"{rows + 3},<={columns + 1}"
            call = "pad(x, c), padding=1_2x0_1"
        case "concatenate":
            both = f"<={2 * rows},{columns}" if at == 0 else f"{rows},<={2 * columns}"
            shape, call = both, f"concatenate(x, {random.choice(('x', 'p0'))}), dimensions={{{at}}}"
        case "reverse":
            shape, call = x, f"reverse(x), dimensions={{{random.randint(0, 1)}}}"
        case "gather":
            before = f"i = s32[2] constant({{0,{rows - 1}}})"
            shape = f"2,<={columns}"
            at, x = 1, f"{rows},<={columns}"
            call = (
                "gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                f"slice_sizes={{1,{columns}}}"
            )
        case "sort":
            shape, call = x, f"sort(x), dimensions={{{at}}}, is_stable=true, to_apply=lt"
        case "dot":
            shape, call = f"{columns},{columns}", "dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
            at, x = 0, f"<={rows},{columns}"
        case _:
            shape, call = x, f"{opcode}(x, x)"
    rank = shape.count(",") + 1
    bounds = shape.replace("<=", "")
    lines, total = [], "d"
    for axis in range(rank):
        lines.append(f"  i{axis} = {kind}[{bounds}] iota(), iota_dimension={axis}")
        lines.append(f"  m{axis} = {kind}[{shape}] multiply({total}, i{axis})")
        lines.append(f"  w{axis} = {kind}[{shape}] add({total}, m{axis})")
        lines.append(f"  g{axis} = s32[] get-dimension-size(d), dimensions={{{axis}}}")
        total = f"w{axis}"
    text = "\n".join([
        "HloModule m", reducer(kind, "add"),
        f"lt {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}",
        "ENTRY e {", f"  p0 = {typed(kind, (rows, columns))} parameter(0)", "  p1 = s32[] parameter(1)",
        f"  x = {kind}[{x}] set-dimension-size(p0, p1), dimensions={{{at}}}", f"  {before}",
        f"  d = {kind}[{shape}] {call}", *lines, f"  z = {kind}[] constant(0)",
        f"  s = {kind}[] reduce({total}, z), dimensions={listed(range(rank))}, to_apply=f",
        f"  ROOT r = ({kind}[]{', s32[]' * rank}) tuple(s{''.join(f', g{axis}' for axis in range(rank))})", "}", "",
    ])  # fmt: skip
    size = (rows, columns)[at]
    return Program("exact", opcode, text, (kind, "s32"), ((rows, columns), ()), (None, (0, size)))


Maker = Callable[[str, str, Random], Program]


def _each(opcodes: str, kinds: tuple[str, ...], maker: Maker) -> dict[tuple[str, str], Maker]:
    return {(opcode, kind): maker for opcode in opcodes.split() for kind in kinds}


_WITHOUT_CPU: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("acos acosh asin asinh atanh cosh sinh".split(), ("f16", "f32", "f64", *COMPLEX)),
    **dict.fromkeys("cbrt ceil erf floor is-finite round-nearest-afz round-nearest-even".split(), COMPLEX),
    **dict.fromkeys("divide power remainder subtract".split(), ("pred",)),
    **dict.fromkeys("concatenate convolution dot sort".split(), ("s2", "u2")),
    "topk": ("s2", "u2", "s4", "u4", "f4e2m1fn"),
}
"""The types for which XLA:CPU refuses an opcode, or ends the process."""

_MAKERS: dict[tuple[str, str], Maker] = {
    **_each(" ".join(FLOATING), (*FLOATS, *NARROWEST, *COMPLEX), elementwise),
    **_each("add multiply divide power", EVERY, elementwise),
    **_each("subtract compare select", EVERY, elementwise),
    **_each("maximum minimum clamp", ORDERED, elementwise),
    **_each("remainder", ORDERED, elementwise),
    **_each("and or xor not", ("pred", *WHOLE), elementwise),
    **_each("shift-left shift-right-arithmetic shift-right-logical popcnt count-leading-zeros", WHOLE, elementwise),
    **_each("atan2", (*FLOATS, *NARROWEST, *COMPLEX), elementwise),
    **_each("abs negate sign", (*SIGNED, "s2", *FLOATS, *NARROWEST, *COMPLEX), elementwise),
    **_each("negate", tuple(kind for kind in WHOLE if kind[0] == "u"), elementwise),
    **_each("complex", ("f32", "f64"), elementwise),
    **_each("real imag", (*FLOATS, *COMPLEX), elementwise),
    **_each("reduce-precision", (*FLOATS, *NARROWEST), elementwise),
    **_each(
        "broadcast concatenate copy dynamic-slice dynamic-update-slice opt-barrier pad reshape reverse slice transpose",
        EVERY,
        moving,
    ),
    **_each("iota", tuple(kind for kind in EVERY if kind not in ("pred", "f8e8m0fnu")), iota),  # the latter has no 0
    **_each("reduce reduce-window", EVERY, folding),
    **_each("sort topk", ORDERED, sorting),
    **_each("gather scatter", EVERY, indexing),
    **_each("dot convolution", EVERY, contracting),
    **_each("call conditional map while", EVERY, calling),
    **_each("select-and-scatter", ORDERED, choosing),
    **_each("convert bitcast-convert", EVERY, converting),
    **_each("batch-norm-grad batch-norm-inference batch-norm-training", FLOATS, normalizing),
    **_each("rng-bit-generator", tuple(kind for kind in INTEGERS if kind[1:] != "4"), drawing),
}

PAIRS = {(opcode, kind): maker for (opcode, kind), maker in _MAKERS.items() if kind not in _WITHOUT_CPU.get(opcode, ())}
"""The maker of programs of each pair of an opcode and a type."""


_SIZED = "add broadcast concatenate dot dynamic-reshape gather maximum pad reshape reverse sort transpose".split()


def paired(random: Random) -> Program:
    """A program of any pair, or on a dynamic size."""
    if random.random() < 0.04:
        return sized(random.choice(_SIZED), random.choice(("s32", "s64", "u32")), random)
    (opcode, kind), maker = random.choice(list(PAIRS.items()))
    return maker(opcode, kind, random)
