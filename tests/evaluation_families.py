"""More random modules: complex numbers, every float of 8 bits, and opcodes with computations; and all of them, mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from evaluation_opcodes import paired
from evaluation_programs import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW,
    REAL,
    Program,
    comparing,
    contracting,
    converting,
    drawn,
    elementwise,
    extreme,
    gathering,
    listed,
    module_of,
    moving,
    ordering,
    random_bits,
    reducer,
    reducing,
    transforming,
    typed,
)

EVERY = (*REAL, *NARROW, "f8e4m3", "f8e3m4", "f4e2m1fn", "f8e8m0fnu", "s2", "u2", "pred", *COMPLEX)


def complexes(random: Random) -> Program:
    """Elementwise opcodes of complex numbers."""
    kind, sizes = random.choice(COMPLEX), drawn(random)
    part = "f32" if kind == "c64" else "f64"
    match random.choice(("unary", "unary", "binary", "compare", "make", "abs")):
        case "unary":
            opcode = random.choice(
                "exponential log tanh sine cosine tan logistic sqrt rsqrt negate sign exponential-minus-one log-plus-one".split()
            )
            text = module_of(typed(kind, sizes), f"{opcode}(p0)", [(kind, sizes)])
            family = "exact" if opcode == "negate" else "complex"
            return Program(family, opcode, text, (kind,), (sizes,), (None if family == "exact" else (-2, 2),))
        case "binary":
            opcode = random.choice(("add", "subtract", "multiply", "divide", "power", "atan2"))
            text = module_of(typed(kind, sizes), f"{opcode}(p0, p1)", [(kind, sizes)] * 2)
            family = "exact" if opcode in ("add", "subtract") else "complex"
            return Program(family, opcode, text, (kind,) * 2, (sizes,) * 2, ((-2, 2),) * 2)
        case "compare":
            call = f"compare(p0, p1), direction={random.choice(('EQ', 'NE'))}"
            text = module_of(typed("pred", sizes), call, [(kind, sizes)] * 2)
            return Program("exact", "compare", text, (kind,) * 2, (sizes,) * 2)
        case "make":
            text = module_of(typed(kind, sizes), "complex(p0, p1)", [(part, sizes)] * 2)
            return Program("exact", "complex", text, (part,) * 2, (sizes,) * 2)
        case _:
            text = module_of(typed(part, sizes), "abs(p0)", [(kind, sizes)])
            return Program("rounded", "abs", text, (kind,), (sizes,), ((-2, 2),))


def narrowing(random: Random) -> Program:
    """convert between any two types, and bitcast-convert of bytes."""
    source, target, sizes = random.choice(EVERY), random.choice(EVERY), drawn(random)
    if random.random() < 0.2:
        source, target = (random.choice((*NARROW, "s8", "u8", "f8e4m3", "f8e3m4")) for _ in range(2))
        text = module_of(typed(target, sizes), "bitcast-convert(p0)", [(source, sizes)])
        return Program("bits", "bitcast-convert", text, (source,), (sizes,))
    target = "s8" if source in COMPLEX and target == "pred" else target  # XLA:CPU crashes
    text = module_of(typed(target, sizes), "convert(p0)", [(source, sizes)])
    return Program("exact", "convert", text, (source,), (sizes,))


def choosing(random: Random) -> Program:
    """select-and-scatter; in windows that overlap there are no ties."""
    kind = random.choice(("s32", "f32", "f64"))
    rank = random.choice((1, 2))
    overlaps = kind != "s32"
    window, sizes, result = [], [], []
    for _ in range(rank):
        extent = random.randint(1, 3)
        stride = random.randint(1, 3) if overlaps else random.randint(extent, 3)
        size, low, high = random.randint(3, 8), random.randint(0, extent - 1), random.randint(0, extent - 1)
        window.append((extent, stride, low, high))
        sizes.append(size)
        result.append((size + low + high - extent) // stride + 1)
    words = (
        f"size={'x'.join(str(w[0]) for w in window)} stride={'x'.join(str(w[1]) for w in window)} "
        f"pad={'x'.join(f'{w[2]}_{w[3]}' for w in window)}"
    )
    before = (
        f"s {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) "
        f"ROOT c = pred[] compare(a, b), direction={random.choice(('GE', 'LE', 'GT', 'LT'))} }}\n{reducer(kind, 'add')}"
    )
    given, source = tuple(sizes), tuple(result)
    text = module_of(typed(kind, given), f"select-and-scatter(p0, p1, p2), window={{{words}}}, select=s, scatter=f",
                     [(kind, given), (kind, source), (kind, ())], before)  # fmt: skip
    within = None if kind == "s32" else (-9, 9)
    if kind == "s32":
        return Program("exact", "select-and-scatter", text, (kind,) * 3, (given, source, ()), (within, within, (0, 0)))
    # the sums of magnitudes would choose others, so that a bound by results is all there is: terms have one sign each
    text = text.replace("p1 = ", "q1 = ").replace("p2 = ", "q2 = ")
    text = text.replace("  ROOT r", f"  p1 = {typed(kind, source)} abs(q1)\n  p2 = {kind}[] abs(q2)\n  ROOT r")
    return Program("positive", "select-and-scatter", text, (kind,) * 3, (given, source, ()), (within,) * 3, 9)


def folding(random: Random) -> Program:
    """reduce of two operands (the place of the largest), map, and reducers of several operations."""
    kind = random.choice(("s32", "f32", "u8", "bf16"))
    rank = random.choice((1, 2, 3))
    sizes = tuple(random.choice((1, 2, 3, 5, 8)) for _ in range(rank))
    dims = sorted(random.sample(range(rank), random.randint(1, rank)))
    kept = tuple(size for at, size in enumerate(sizes) if at not in dims)
    match random.choice(("largest", "map", "steps")):
        case "largest":
            least = {"s32": "-2147483648", "u8": "0"}.get(kind, "-inf")
            before = f"""f {{ a = {kind}[] parameter(0) i = s32[] parameter(1) b = {kind}[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT  n = pred[] compare(a, a), direction=NE  o = pred[] or(g, n)
  e = pred[] compare(a, b), direction=EQ  l = pred[] compare(i, j), direction=LT  q = pred[] and(e, l)  t = pred[] or(o, q)
  v = {kind}[] select(o, a, b)  k = s32[] select(t, i, j)  ROOT r = ({kind}[], s32[]) tuple(v, k) }}
"""
            lines = f"""  x = {kind}[] constant({least})
  y = s32[] constant(2147483647)
  z = {typed("s32", sizes)} iota(), iota_dimension={dims[0]}
  ROOT r = ({typed(kind, kept)}, {typed("s32", kept)}) reduce(p0, z, x, y), dimensions={listed(dims)}, to_apply=f"""
            text = f"HloModule m\n{before}ENTRY e {{\n  p0 = {typed(kind, sizes)} parameter(0)\n{lines}\n}}\n"
            return Program("exact", "reduce", text, (kind,), (sizes,), ((-9, 9),))
        case "map":
            before = f"""f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = {kind}[] maximum(a, b)
  l = pred[] compare(a, b), direction=LE  m = {kind}[] minimum(a, c)  ROOT r = {kind}[] select(l, b, m) }}
"""
            call = f"map(p0, p1), dimensions={listed(range(rank))}, to_apply=f"
            text = module_of(typed(kind, sizes), call, [(kind, sizes)] * 2, before)
            return Program("exact", "map", text, (kind,) * 2, (sizes,) * 2)
        case _:
            kind = random.choice(("s32", "u8", "s16"))
            before = f"""f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = {kind}[] add(a, b)
  d = {kind}[] constant(1) e = {kind}[] multiply(c, d) f = ({kind}[], {kind}[]) tuple(e, a)
  ROOT r = {kind}[] get-tuple-element(f), index=0 }}
"""
            call = f"reduce(p0, i), dimensions={listed(dims)}, to_apply=f"
            text = module_of(typed(kind, kept), call, [(kind, sizes)], before)
            text = text.replace("  ROOT r = " + typed(kind, kept) + " reduce", f"  i = {kind}[] constant(0)\n  ROOT r = "
                                + typed(kind, kept) + " reduce")  # fmt: skip
            return Program("exact", "reduce", text, (kind,), (sizes,))


def branching(random: Random) -> Program:
    """conditional by a number or a truth value, while, call, and values of dynamic size."""
    kind, sizes = random.choice(("s32", "u8", "f32", "bf16")), drawn(random, random.choice((1, 2)))
    shape = typed(kind, sizes)
    match random.choice(("switch", "if", "while", "dynamic", "dynamic")):
        case "switch":
            branches = random.randint(1, 4)
            opcodes = ("negate", "abs", "copy", "reverse")
            if kind == "u8":
                opcodes = ("not", "popcnt", "copy", "reverse")
            before = "".join(
                f"b{at} {{ x = {shape} parameter(0) ROOT r = {shape} "
                f"{opcodes[at]}(x){', dimensions={0}' if opcodes[at] == 'reverse' else ''} }}\n"
                for at in range(branches)
            )
            call = f"conditional(p0, {', '.join(['p1'] * branches)}), branch_computations={listed([f'b{at}' for at in range(branches)])}"
            text = module_of(shape, call, [("s32", ()), (kind, sizes)], before)
            return Program("exact", "conditional", text, ("s32", kind), ((), sizes), ((-2, 5), None))
        case "if":
            before = f"t {{ x = {shape} parameter(0) ROOT r = {shape} add(x, x) }}\nf {{ x = {shape} parameter(0) ROOT r = {shape} copy(x) }}\n"
            text = module_of(shape, "conditional(p0, p1, p1), true_computation=t, false_computation=f",
                             [("pred", ()), (kind, sizes)], before)  # fmt: skip
            return Program("exact", "conditional", text, ("pred", kind), ((), sizes))
        case "while":
            state = f"(s32[], {shape})"
            before = f"""c {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant({random.randint(0, 9)})
  ROOT l = pred[] compare(i, n), direction=LT }}
b {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 x = {shape} get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one) y = {shape} {random.choice(("add", "maximum", "subtract"))}(x, x)
  ROOT t = {state} tuple(j, y) }}
"""
            text = module_of(state, "while(t), condition=c, body=b", [("s32", ()), (kind, sizes)], before)
            text = text.replace("  ROOT", f"  t = {state} tuple(p0, p1)\n  ROOT", 3).replace(
                f"  t = {state} tuple(p0, p1)\n  ROOT", "  ROOT", 2)  # fmt: skip
            return Program("exact", "while", text, ("s32", kind), ((), sizes), ((0, 9), None))
        case _:
            kind = random.choice(("s32", "s64"))
            at = random.randrange(len(sizes))
            dynamic = ",".join(f"<={size}" if n == at else str(size) for n, size in enumerate(sizes))
            kept = tuple(size for n, size in enumerate(sizes) if n != at)
            opcode = random.choice(("add", "maximum"))
            least = "0" if opcode == "add" else extreme(kind, opcode)
            text = f"""HloModule m
{reducer(kind, opcode)}
ENTRY e {{
  p0 = {typed(kind, sizes)} parameter(0)
  p1 = s32[] parameter(1)
  d = {kind}[{dynamic}] set-dimension-size(p0, p1), dimensions={{{at}}}
  s = {kind}[{dynamic}] {random.choice(("add", "subtract"))}(d, d)
  n = s32[] get-dimension-size(s), dimensions={{{at}}}
  i = {kind}[] constant({least})
  a = {typed(kind, kept)} reduce(s, i), dimensions={{{at}}}, to_apply=f
  ROOT r = ({typed(kind, kept)}, s32[]) tuple(a, n)
}}
"""
            within = (0, sizes[at])
            return Program("exact", "set-dimension-size", text, (kind, "s32"), (sizes, ()), (None, within))


def batched(random: Random) -> Program:
    """gather and scatter with batch dimensions, in any place of the operand and of the indices."""
    kind, index = random.choice(("s32", "u8", "s16")), random.choice(("s32", "s64", "u8"))
    rank = random.choice((2, 3))
    sizes = tuple(random.choice((2, 3, 4)) for _ in range(rank))
    count = random.randint(1, rank - 1)
    batch = sorted(random.sample(range(rank), count))
    others = [at for at in range(rank) if at not in batch]
    mapped = random.sample(others, random.randint(1, len(others)))
    collapsed = sorted(random.sample(others, random.randint(0, len(others))))
    window = [1 if at in (*collapsed, *batch) else random.randint(1, sizes[at]) for at in range(rank)]
    kept = [window[at] for at in range(rank) if at not in collapsed and at not in batch]
    free = random.choice((0, 1))
    order = random.sample(range(count + free), count + free)  # dims of the indices without the vector
    extents = [sizes[batch[place]] if place < count else random.choice((1, 3)) for place in order]
    vector = random.randint(0, len(extents))
    indices = (*extents[:vector], len(mapped), *extents[vector:])
    starts = [order.index(place) + (order.index(place) >= vector) for place in range(count)]
    total = len(extents) + len(kept)
    places = sorted(random.sample(range(total), len(kept)))
    rest, inner = list(extents), list(kept)
    result = tuple(inner.pop(0) if at in places else rest.pop(0) for at in range(total))
    if random.random() < 0.5:
        call = (
            f"gather(p0, p1), offset_dims={listed(places)}, collapsed_slice_dims={listed(collapsed)}, "
            f"start_index_map={listed(mapped)}, operand_batching_dims={listed(batch)}, "
            f"start_indices_batching_dims={listed(starts)}, index_vector_dim={vector}, slice_sizes={listed(window)}"
        )
        text = module_of(typed(kind, result), call, [(kind, sizes), (index, indices)])
        return Program("exact", "gather", text, (kind, index), (sizes, indices), (None, (0, 5)))
    call = (
        f"scatter(p0, p1, p2), update_window_dims={listed(places)}, inserted_window_dims={listed(collapsed)}, "
        f"scatter_dims_to_operand_dims={listed(mapped)}, input_batching_dims={listed(batch)}, "
        f"scatter_indices_batching_dims={listed(starts)}, index_vector_dim={vector}, to_apply=f"
    )
    given = [(kind, sizes), (index, indices), (kind, result)]
    text = module_of(typed(kind, sizes), call, given, reducer(kind, random.choice(("add", "minimum", "multiply"))))
    return Program("exact", "scatter", text, (kind, index, kind), (sizes, indices, result), (None, (0, 5), None))


def products(random: Random) -> Program:
    """dot of narrow operands with a wide result, of truth values; convolution of batch groups in any layout of dims."""
    if random.random() < 0.5:
        kind, result = random.choice((("s8", "s32"), ("u8", "s32"), ("bf16", "f32"), ("f16", "f32"), ("s16", "s64")))
        rows, inner, columns = (random.choice((1, 2, 5, 33)) for _ in range(3))
        left, right = (rows, inner), (columns, inner)
        call = "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
        text = module_of(typed(result, (rows, columns)), call, [(kind, left), (kind, right)])
        family = "sums" if result == "f32" else "exact"
        return Program(
            family, "dot", text, (kind, kind), (left, right), ((-9, 9) if kind != "u8" else None,) * 2, inner
        )
    kind = random.choice(("f32", "s32", "f64"))
    groups = random.choice((1, 2))
    by_batch = random.random() < 0.5
    size, extent = random.randint(3, 6), random.randint(1, 3)
    count, inputs = (
        (groups if by_batch else 1) * random.randint(1, 2),
        random.randint(1, 3) * (1 if by_batch else groups),
    )
    outputs = groups * random.randint(1, 2)
    letters = [random.sample(each, 3) for each in ("b0f", "0io", "b0f")]
    lengths = (
        {"b": count, "0": size, "f": inputs},
        {"0": extent, "i": inputs if by_batch else inputs // groups, "o": outputs},
        {"b": count // groups if by_batch else count, "0": size - extent + 1, "f": outputs},
    )
    x, w, y = (tuple(each[letter] for letter in order) for each, order in zip(lengths, letters, strict=True))
    labels = f"{''.join(letters[0])}_{''.join(letters[1])}->{''.join(letters[2])}"
    group = f"{'batch' if by_batch else 'feature'}_group_count={groups}"
    call = f"convolution(p0, p1), window={{size={extent}}}, dim_labels={labels}, {group}"
    text = module_of(typed(kind, y), call, [(kind, x), (kind, w)])
    family, terms = "exact" if kind == "s32" else "sums", int(np.prod(w))
    return Program(family, "convolution", text, (kind, kind), (x, w), ((-9, 9),) * 2, terms)


def ranking(random: Random) -> Program:
    """topk, and sort by two keys."""
    kind = random.choice(("f32", "s32", "bf16", "u8"))
    rows, columns = random.choice((1, 2, 5)), random.choice((1, 3, 8, 20))
    if random.random() < 0.5:
        most = random.randint(1, columns)
        shape = f"({typed(kind, (rows, most))}, {typed('s32', (rows, most))})"
        text = module_of(shape, f"topk(p0), k={most}, largest=true", [(kind, (rows, columns))])
        return Program("exact", "topk", text, (kind,), ((rows, columns),), ((-9, 9),))
    given = typed(kind, (rows, columns))
    before = f"""f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) c = {kind}[] parameter(2) d = {kind}[] parameter(3)
  l = pred[] compare(a, b), direction=LT  e = pred[] compare(a, b), direction=EQ  g = pred[] compare(c, d), direction=GT
  q = pred[] and(e, g)  ROOT r = pred[] or(l, q) }}
"""
    at = random.randint(0, 1)
    text = module_of(f"({given}, {given})", f"sort(p0, p1), dimensions={{{at}}}, is_stable=true, to_apply=f",
                     [(kind, (rows, columns))] * 2, before)  # fmt: skip
    return Program("exact", "sort", text, (kind,) * 2, ((rows, columns),) * 2, ((-9, 9),) * 2)


def factoring(random: Random) -> Program:
    """cholesky of a matrix that has one."""
    kind, size = random.choice(("f32", "f64")), random.choice((1, 2, 3, 5))
    lead = random.choice(((), (2,)))
    sizes = (*lead, size, size)
    shape, batch = typed(kind, sizes), listed(range(len(lead)))
    inner = listed([len(sizes) - 1])
    text = f"""HloModule m
ENTRY e {{
  p0 = {shape} parameter(0)
  d = {shape} dot(p0, p0), lhs_batch_dims={batch}, rhs_batch_dims={batch}, lhs_contracting_dims={inner}, rhs_contracting_dims={inner}
  a = {shape} iota(), iota_dimension={len(lead)}
  b = {shape} iota(), iota_dimension={len(lead) + 1}
  q = {typed("pred", sizes)} compare(a, b), direction=EQ
  i = {shape} convert(q)
  s = {shape} add(d, i)
  c = {shape} cholesky(s), lower={random.choice(("true", "false"))}
  z = {kind}[] constant(0)
  zs = {shape} broadcast(z), dimensions={{}}
  k = {typed("pred", sizes)} compare(a, b), direction={{}}
  ROOT r = {shape} select(k, c, zs)
}}
"""
    text = text.replace("direction={}", "direction=" + ("GE" if "lower=true" in text else "LE"))
    return Program("solved", "cholesky", text, (kind,), (sizes,), ((-9, 9),))


def plain(random: Random) -> Program:
    """reshape, copy, tuple, and bits of integers of odd widths."""
    kind, sizes = random.choice((*INTEGERS, *FLOATS, "pred", *COMPLEX)), drawn(random, 2)
    opcode = random.choice(("reshape", "copy", "opt-barrier"))
    result = sizes if opcode != "reshape" else random.choice(((sizes[0] * sizes[1],), (1, *sizes), sizes[::-1]))
    return Program("exact", opcode, module_of(typed(kind, result), f"{opcode}(p0)", [(kind, sizes)]), (kind,), (sizes,))


FAMILIES: tuple[tuple[Callable[[Random], Program], int], ...] = (
    (elementwise, 16), (comparing, 4), (converting, 4), (moving, 6), (reducing, 4), (contracting, 3), (ordering, 2),
    (gathering, 3), (random_bits, 1), (transforming, 2), (complexes, 4), (narrowing, 4), (choosing, 1),
    (folding, 3), (branching, 3), (batched, 2), (products, 2), (ranking, 1), (factoring, 1), (plain, 1), (paired, 60),
)  # fmt: skip
"""The makers of programs, and how often each is chosen."""


def programs(seed: int, count: int) -> Iterator[Program]:
    """Random programs."""
    random = Random(seed)
    makers = [maker for maker, weight in FAMILIES for _ in range(weight)]
    for _ in range(count):
        yield random.choice(makers)(random)
