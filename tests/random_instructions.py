"""Random instructions without their result shapes, right and wrong ones, for comparing what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

_SIZES = (2, 3, 4)
_APPLIED = """
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
both { x = f32[] parameter(0)  y = s32[] parameter(1)  a = f32[] parameter(2)  b = s32[] parameter(3)
  ROOT z = (f32[], s32[]) tuple(x, b) }
less { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = pred[] compare(x, y), direction=LT }
"""


class Writer:
    """Makes one module of parameters and an instruction that takes them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.parameters: list[str] = []

    def text(self) -> str:
        """The module."""
        instruction = self.random.choice(KINDS)(self)
        lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(self.parameters)]
        return "\n".join(("HloModule m", _APPLIED, "ENTRY e {", *lines, f"  ROOT r = {instruction}", "}"))

    def sizes(self, rank: int | None = None) -> list[int]:
        """Random sizes, of as many dimensions as are asked for."""
        rank = self.random.randrange(4) if rank is None else rank
        return [self.random.choice(_SIZES) for _ in range(rank)]

    def array(self, sizes: Sequence[int], element_type: str = "f32") -> str:
        """The name of a parameter of these sizes, with a random layout, and at times dynamic."""
        order = list(range(len(sizes)))
        self.random.shuffle(order)
        properties = self.random.choice(("", "", "S(1)", "T(8,128)", "T(8,128)S(3)", "T(4,128)(2,1)")) if sizes else ""
        layout = f"{{{','.join(map(str, order))}{':' if properties else ''}{properties}}}" if sizes else ""
        dynamic = [self.random.random() < 0.08 for _ in sizes]
        listed = ",".join(f"<={size}" if flag else str(size) for size, flag in zip(sizes, dynamic, strict=True))
        self.parameters.append(f"{element_type}[{listed}]{layout}")
        return f"p{len(self.parameters) - 1}"

    def some(self, rank: int, *, rightly: float = 0.8) -> list[int]:
        """Some dimensions of an array of this rank, each once and rising, or mostly so."""
        if self.random.random() > rightly:
            return [self.random.randrange(-1, rank + 1) for _ in range(self.random.randrange(3))]
        return sorted(self.random.sample(range(rank), self.random.randrange(rank + 1)))

    def float_type(self) -> str:
        """A float type."""
        return self.random.choice(("f32", "f32", "bf16", "f16", "f64"))


def _listed(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _binary(w: Writer) -> str:
    sizes = w.sizes()
    other = [*sizes, 2] if sizes and w.random.random() < 0.1 else sizes
    opcode = w.random.choice(("add", "multiply", "maximum", "power", "divide"))
    return f"{opcode}({w.array(sizes, w.float_type())}, {w.array(other, w.float_type())})"


def _select(w: Writer) -> str:
    sizes = w.sizes()
    chooser = w.array(w.random.choice((sizes, [])), "pred")
    return f"select({chooser}, {w.array(sizes, w.float_type())}, {w.array(sizes, w.float_type())})"


def _clamp(w: Writer) -> str:
    sizes = w.sizes()
    low, high = w.random.choice((sizes, [])), w.random.choice((sizes, [], [2]))
    return f"clamp({w.array(low)}, {w.array(sizes, w.float_type())}, {w.array(high)})"


def _transpose(w: Writer) -> str:
    sizes = w.sizes()
    order = w.some(len(sizes), rightly=0) if w.random.random() < 0.2 else w.random.sample(range(len(sizes)), len(sizes))
    return f"transpose({w.array(sizes)}), dimensions={_listed(order)}"


def _reverse(w: Writer) -> str:
    sizes = w.sizes()
    return f"reverse({w.array(sizes)}), dimensions={_listed(w.some(len(sizes)))}"


def _pad(w: Writer) -> str:
    sizes = w.sizes(w.random.randrange(1, 4))
    parts = [f"{w.random.randrange(-2, 3)}_{w.random.randrange(-3, 3)}_{w.random.randrange(3)}" for _ in sizes]
    return f"pad({w.array(sizes)}, {w.array([], w.float_type())}), padding={'x'.join(parts)}"


def _concatenate(w: Writer) -> str:
    sizes = w.sizes(w.random.randrange(1, 4))
    along = w.random.randrange(len(sizes))
    parts = [w.array([*sizes[:along], w.random.choice(_SIZES), *sizes[along + 1 :]], w.float_type()) for _ in range(3)]
    return f"concatenate({', '.join(parts)}), dimensions={{{along}}}"


def _reduce(w: Writer) -> str:
    sizes = w.sizes()
    dimensions = f"dimensions={_listed(w.some(len(sizes)))}"
    if w.random.random() < 0.5:
        return f"reduce({w.array(sizes, w.float_type())}, {w.array([])}), {dimensions}, to_apply=add"
    inputs = f"{w.array(sizes)}, {w.array(sizes, w.random.choice(('s32', 's32', 'f32')))}"
    return f"reduce({inputs}, {w.array([])}, {w.array([], 's32')}), {dimensions}, to_apply=both"


def _window(w: Writer, rank: int) -> str:
    fields = {
        "size": [w.random.randrange(1, 4) for _ in range(rank)],
        "stride": [w.random.randrange(1, 3) for _ in range(rank)],
        "lhs_dilate": [w.random.randrange(1, 3) for _ in range(rank)],
        "rhs_dilate": [w.random.randrange(1, 3) for _ in range(rank)],
    }
    pad = "x".join(f"{w.random.randrange(-1, 3)}_{w.random.randrange(-1, 3)}" for _ in range(rank))
    return "{" + " ".join(f"{name}={'x'.join(map(str, n))}" for name, n in fields.items()) + f" pad={pad}}}"


def _reduce_window(w: Writer) -> str:
    sizes = w.sizes(w.random.randrange(1, 4))
    rank = len(sizes) if w.random.random() < 0.9 else len(sizes) + 1
    return f"reduce-window({w.array(sizes)}, {w.array([])}), window={_window(w, rank)}, to_apply=add"


def _convolution(w: Writer) -> str:
    groups, what = w.random.choice((1, 2)), w.random.choice(("feature", "batch"))
    batch, features, made = w.random.choice(_SIZES), w.random.choice(_SIZES), w.random.choice(_SIZES)
    taken = features // groups if what == "feature" and w.random.random() < 0.9 else features
    size, stride = w.random.randrange(1, 4), w.random.randrange(1, 3)
    lhs, rhs = w.array([batch, 9, features], w.float_type()), w.array([size, taken, made], w.float_type())
    window = f"window={{size={size} stride={stride} pad=1_{w.random.randrange(3)}}}"
    labels = f"dim_labels=b0f_0io->{w.random.choice(('b0f', 'bf0', '0bf'))}"
    return f"convolution({lhs}, {rhs}), {window}, {labels}, {what}_group_count={groups}"


def _dot(w: Writer) -> str:
    sizes, other = w.sizes(), w.sizes()
    batch = [2] if w.random.random() < 0.5 else []
    left, right = [*batch, *sizes, 3], [3, *batch, *other]
    if w.random.random() < 0.1:
        right[0] = 4
    dims = f"lhs_contracting_dims={{{len(left) - 1}}}, rhs_contracting_dims={{0}}"
    dims += ", lhs_batch_dims={0}, rhs_batch_dims={1}" if batch else ""
    return f"dot({w.array(left, w.float_type())}, {w.array(right, w.float_type())}), {dims}"


def _gather(w: Writer) -> str:
    sizes, indices = w.sizes(w.random.randrange(1, 4)), w.sizes()
    mapped = w.some(len(sizes))
    collapsed = w.some(len(sizes))
    slices = [1 if d in collapsed else w.random.randrange(1, size + 1) for d, size in enumerate(sizes)]
    vector = len(indices)
    indices = indices if len(mapped) == 1 and w.random.random() < 0.5 else [*indices, len(mapped)]
    kept = max(len(sizes) - len(collapsed), 0)
    offset = sorted(w.random.sample(range(kept + vector), kept))
    return (
        f"gather({w.array(sizes)}, {w.array(indices, 's32')}), offset_dims={_listed(offset)}, "
        f"collapsed_slice_dims={_listed(collapsed)}, start_index_map={_listed(mapped)}, index_vector_dim={vector}, "
        f"slice_sizes={_listed(slices)}"
    )


def _scatter(w: Writer) -> str:
    sizes, indices = w.sizes(w.random.randrange(1, 4)), w.sizes(w.random.randrange(3))
    mapped, inserted = w.some(len(sizes)), w.some(len(sizes))
    windows = [w.random.randrange(1, size + 1) for d, size in enumerate(sizes) if d not in inserted]
    places = sorted(w.random.sample(range(len(windows) + len(indices)), len(windows)))
    outer, inner = iter(indices), iter(windows)
    updates = [next(inner) if d in places else next(outer) for d in range(len(windows) + len(indices))]
    return (
        f"scatter({w.array(sizes)}, {w.array([*indices, len(mapped)], 's32')}, {w.array(updates)}), "
        f"update_window_dims={_listed(places)}, inserted_window_dims={_listed(inserted)}, "
        f"scatter_dims_to_operand_dims={_listed(mapped)}, index_vector_dim={len(indices)}, to_apply=add"
    )


def _fft(w: Writer) -> str:
    sizes = w.sizes(w.random.randrange(1, 4))
    kind = w.random.choice(("FFT", "RFFT", "IRFFT"))
    lengths = sizes[-w.random.randrange(1, 3) :]
    if kind == "IRFFT":
        lengths = [*lengths[:-1], 2 * (lengths[-1] - 1) + w.random.randrange(3)]
    element_type = w.random.choice(("f32", "f64") if kind == "RFFT" else ("c64", "c128"))
    return f"fft({w.array(sizes, element_type)}), fft_type={kind}, fft_length={_listed(lengths)}"


def _solve(w: Writer) -> str:
    a, b = w.sizes(w.random.randrange(1, 4)), w.sizes(w.random.randrange(2, 4))
    a = [*b[:-2], b[-2], b[-2]] if w.random.random() < 0.7 else a
    side = w.random.choice(("true", "true", "false"))
    return f"triangular-solve({w.array(a)}, {w.array(b)}), left_side={side}, transpose_a=ADJOINT"


def _normalise(w: Writer) -> str:
    sizes = w.sizes(w.random.randrange(1, 4))
    along = w.random.randrange(len(sizes))
    feature = sizes[along] if w.random.random() < 0.8 else 2
    opcode, count, tail = w.random.choice((("training", 2, ()), ("inference", 4, ()), ("grad", 3, (sizes,))))
    operands = [w.array(shape) for shape in (sizes, *[[feature]] * count, *tail)]
    return f"batch-norm-{opcode}({', '.join(operands)}), epsilon=0.1, feature_index={along}"


def _compare(w: Writer) -> str:
    sizes = w.sizes()
    return f"compare({w.array(sizes)}, {w.array(sizes, w.float_type())}), direction=LT"


def _topk(w: Writer) -> str:
    return f"topk({w.array(w.sizes(w.random.randrange(1, 4)))}), k={w.random.randrange(1, 5)}"


def _map(w: Writer) -> str:
    sizes = w.sizes()
    return f"map({w.array(sizes)}, {w.array(sizes)}), dimensions={_listed(range(len(sizes)))}, to_apply=less"


def _sort(w: Writer) -> str:
    return f"sort({w.array(w.sizes(2))}), dimensions={{1}}, to_apply=less"


KINDS: Sequence[Callable[[Writer], str]] = (
    _binary,
    _select,
    _clamp,
    _transpose,
    _reverse,
    _pad,
    _concatenate,
    _reduce,
    _reduce_window,
    _convolution,
    _dot,
    _gather,
    _scatter,
    _fft,
    _solve,
    _normalise,
    _compare,
    _topk,
    _map,
    _sort,
)
