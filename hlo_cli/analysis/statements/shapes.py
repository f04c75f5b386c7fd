"""Which sizes and element types took the place of others everywhere, what users call them, and what follows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import cache
from itertools import takewhile
from typing import Final

from hlo_cli.analysis.matching.changes import FUSED
from hlo_cli.analysis.matching.module_diff import Changed
from hlo_cli.analysis.statements.statement import (
    DimensionChange,
    Draft,
    Evidence,
    ProductChange,
    Substitution,
    TypeChange,
    ValueChange,
)
from hlo_cli.dataclass import dataclass
from hlo_cli.ir import opcodes
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.shape import ArrayShape, BufferShape, Leaf, Shape
from hlo_cli.lazy_regex import lazy_regex

# --- arguments as users call them ---
# The arguments of a program as users call them, and what they are: weights, or data.


# Labels are the user's pytree paths as JAX prints them, such as params['layers'][0].kernel.
_PART: Final = lazy_regex(r"[\[./]?[^\[./]+")
_WORD: Final = lazy_regex(r"[a-z]+")
# Words in labels of Flax, Haiku, Optax, and hand-written models; collected, not complete: others count as data.
_WEIGHT_WORDS: Final = frozenset(
    ("params", "param", "parameters", "weights", "weight", "kernel", "variables", "state", "opt", "model")
)
# Names of embedding tables in the usual libraries (wte of GPT-2, embedder of Gemma); other names get no name of a size.
_VOCABULARY_WORDS: Final = frozenset(
    ("embedding", "embed", "embeddings", "embedder", "emb", "wte", "vocab", "vocabulary", "unembed", "head", "logits")
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the entry with its label, which is empty if the dump does not tell it."""

    parameter: Instruction
    label: str

    @property
    def is_weight(self) -> bool:
        """Whether the label says that it is a parameter of the model, or the state of its optimizer."""
        return not _WEIGHT_WORDS.isdisjoint(_WORD.findall(self.label.lower()))

    @property
    def is_of_vocabulary(self) -> bool:
        """Whether the label names an embedding or an output layer."""
        return not _VOCABULARY_WORDS.isdisjoint(_WORD.findall(self.label.lower()))

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers."""
        shape = self.parameter.shape
        return isinstance(shape, ArrayShape) and str(shape.element_type)[0] in "su"

    @property
    def rank(self) -> int:
        """The number of its dimensions, 0 for tuples."""
        return self.parameter.shape.rank if isinstance(self.parameter.shape, ArrayShape) else 0


def argument_of(parameter: Instruction) -> Argument:
    """The argument of a parameter of the entry.

    >>> from hlo_cli import parse_module
    >>> line = '''p = s32[8] parameter(0), metadata={op_name="data['ids']"}'''
    >>> argument = argument_of(parse_module(f"ENTRY e {{ ROOT {line} }}").entry.parameters[0])
    >>> argument.label, argument.is_weight, argument.is_integer
    ("data['ids']", False, True)
    """
    label = parameter.metadata.op_name if "metadata=" in parameter.raw[1] else ""
    return Argument(parameter, label)


def _shared_label(labels: Iterable[str]) -> str:
    """What the labels begin with, up to a whole part: `params` of `params['a']` and `params['b']`.

    >>> _shared_label(["state['params']['wq']", "state['params']['wo']"]), _shared_label(["a", "b"])
    ("state['params']", '')
    """
    given = list(dict.fromkeys(labels))
    if len(given) < 2:
        return given[0] if given else ""
    parts = [_PART.findall(label) for label in given]
    return "".join(found[0] for found in takewhile(lambda found: len(set(found)) == 1, zip(*parts, strict=False)))


# --- two shapes ---
# How the sizes of dimensions and the element types of two shapes differ, place by place.


SizePair = tuple[int, int]
"""A size of the old module and the size in its place in the new one."""


@dataclass(frozen=True, slots=True)
class ShapeDelta:
    """The sizes and the types that take the place of others in a shape.

    `is_rearranged` says that an array has the same sizes in another order.
    """

    sizes: frozenset[SizePair]
    types: frozenset[tuple[str, str]]
    is_rearranged: bool = False


def shape_delta(before: Shape, after: Shape) -> ShapeDelta | None:
    """The differences of two shapes of one structure; None if ranks or the numbers of elements differ.

    >>> from hlo_cli.syntax.scanning.shape_reader import parse_shape
    >>> shape_delta(parse_shape("f32[8,256]"), parse_shape("bf16[8,320]"))
    ShapeDelta(sizes=frozenset({(256, 320)}), types=frozenset({('f32', 'bf16')}), is_rearranged=False)
    >>> shape_delta(parse_shape("f32[8,256]"), parse_shape("f32[8]")) is None
    True
    """
    olds, news = list(before.leaves), list(after.leaves)
    if len(olds) != len(news):
        return None
    sizes: set[SizePair] = set()
    types: set[tuple[str, str]] = set()
    is_rearranged = False
    for (index, old), (new_index, new) in zip(olds, news, strict=True):
        x, y = _array(old), _array(new)
        if index != new_index or (x is None) != (y is None):
            return None
        if x is None or y is None:
            continue
        if x.rank != y.rank:
            return None
        # Equal sets of sizes in another order are a transposition, and no size changed.
        if sorted(x.dimensions) == sorted(y.dimensions):
            is_rearranged = is_rearranged or x.dimensions != y.dimensions
        else:
            sizes.update((a, b) for a, b in zip(x.dimensions, y.dimensions, strict=True) if a != b)
        if x.element_type is not y.element_type:
            types.add((str(x.element_type), str(y.element_type)))
    return ShapeDelta(frozenset(sizes), frozenset(types), is_rearranged)


def _array(leaf: Leaf) -> ArrayShape | None:
    if isinstance(leaf, BufferShape):
        return leaf.array
    return leaf if isinstance(leaf, ArrayShape) else None


# --- sizes and their causes ---
# Sizes that take the place of others throughout a module: which ones are causes, and what follows from them.


_NUMBER: Final = lazy_regex(r"[0-9]+")
# n + 1 of shifted sequences and n - 2 of a convolution of width 3 follow from n.
_MAX_OFFSET: Final = 2
# In halves: powers to 2 and -2 with roots, as in 1/sqrt(d), 1/n, and n^2 of a mean, a scale, and a variance.
_MAX_POWER: Final = 4
# One or two shapes are read faster as rows.
_MIN_SHAPES: Final = 3
# A tenth of what changed; less may be chance. Chosen, not measured.
_MIN_SHARE: Final = 0.1
# (2 * 4 + 1)^3 = 729 products of factors; with more of them nearly any number would be explained.
_MAX_RATIOS: Final = 3
# Numbers of six digits, as older XLA prints them (absl::StrCat), differ by up to 1e-5 when both are rounded; twice
# that.
_TOLERANCE: Final = 2e-5
# bf16 has 8 bits: two rounded numbers differ by up to 2^-7, 0.8%.
_NARROW_TOLERANCE: Final = 1e-2


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """Sizes that changed by one factor: `base` is the one that the others are multiples or parts of."""

    base: SizePair
    also: tuple[SizePair, ...]
    shapes: int

    @property
    def ratio(self) -> Fraction:
        """The factor.

        >>> SizeGroup((256, 320), (), 9).ratio
        Fraction(5, 4)
        """
        return Fraction(self.base[1], self.base[0])


class Sizes:
    """The sizes that changed, in groups of one factor, most frequent first.

    >>> deltas = [ShapeDelta(frozenset({pair}), frozenset()) for pair in [(256, 320)] * 4 + [(1024, 1280)] * 2]
    >>> sizes = Sizes(deltas, deltas[:1])
    >>> sizes.groups
    (SizeGroup(base=(256, 320), also=((1024, 1280),), shapes=6),)
    >>> sizes.explain_text("{0:256, 0:8}", "{0:320, 0:8}"), sizes.explain_text("{0:256}", "{0:257}")
    (True, False)
    >>> sizes.explain_constant("0.00390625", "0.003125"), sizes.explain_constant("16", "17.8885441")
    (True, True)
    """

    def __init__(
        self,
        deltas: Iterable[ShapeDelta],
        arguments: Iterable[ShapeDelta],
        occurrences: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]] | None = None,
    ) -> None:
        """Finds the causes; `occurrences` counts the shapes of both modules that have a size."""
        all_deltas = list(deltas)
        self._occurrences = occurrences
        self._counts: Counter[SizePair] = Counter(pair for each in all_deltas for pair in each.sizes)
        self._in_arguments: Counter[SizePair] = Counter(pair for each in arguments for pair in each.sizes)
        self._explained: dict[SizePair, SizeGroup | None] = {}
        self.groups: tuple[SizeGroup, ...] = ()
        changed = sum(bool(each.sizes) for each in all_deltas)
        candidates = [
            self._group(pairs, all_deltas) for pairs in _by_ratio(self._counts) if self._is_enough(pairs, changed)
        ]
        candidates.sort(key=lambda each: (-self._in_arguments[each.base], -each.shapes, sorted(each.base)))
        explained_pairs: frozenset[SizePair] = frozenset()
        for group in candidates:
            own = frozenset((group.base, *group.also))
            if not self._explains(group.base) and (
                self._is_everywhere(group) or _are_together(own, explained_pairs, all_deltas)
            ):
                self.groups = (*self.groups, group)
                self._explained.clear()
                explained_pairs |= own

    def _is_enough(self, pairs: list[SizePair], changed: int) -> bool:
        """Whether sizes changed often enough to be a cause rather than an accident."""
        # Sizes of 1 and 0 come and go by broadcasts and empty arrays, so one pair of them is no cause.
        if any(1 in pair or 0 in pair for pair in pairs) and len(pairs) == 1 and not self._in_arguments[pairs[0]]:
            return False
        shapes = sum(self._counts[pair] for pair in pairs)
        if any(self._in_arguments[pair] for pair in pairs):
            # In an argument, a size is given by the user: two places are enough.
            return shapes > 1
        return shapes >= max(_MIN_SHAPES, _MIN_SHARE * changed)

    def _is_everywhere(self, group: SizeGroup) -> bool:
        """Whether the size changed in most of its places, or in an argument."""
        if self._in_arguments[group.base] or self._occurrences is None:
            return True
        old, new = self._occurrences()
        x, y = group.base
        # Half of the places of the rarer size: a size that stayed in most of its places was not changed throughout.
        return 2 * self._counts[group.base] >= min(old.get(x, 0), new.get(y, 0))

    def _group(self, pairs: list[SizePair], deltas: Iterable[ShapeDelta]) -> SizeGroup:
        known = frozenset(pairs)
        # The size in most arguments is what the user set; the smaller one at a tie, since others are multiples of it.
        base = min(pairs, key=lambda pair: (-self._in_arguments[pair], -self._counts[pair], sorted(pair)))
        also = sorted((pair for pair in pairs if pair != base), key=lambda pair: (-self._counts[pair], sorted(pair)))
        return SizeGroup(base, tuple(also), sum(not known.isdisjoint(each.sizes) for each in deltas))

    def group_of(self, pair: SizePair) -> SizeGroup | None:
        """The cause of a changed size: it has the factor, or is a multiple and a small number more."""
        if pair not in self._explained:
            self._explained[pair] = self._find(pair)
        return self._explained[pair]

    def _find(self, pair: SizePair) -> SizeGroup | None:
        x, y = pair
        if x <= 0 or y <= 0:
            return None
        ratio = Fraction(y, x)
        for group in self.groups:
            if ratio == group.ratio:
                return group
        for group in self.groups:
            a, b = group.base
            # x = times * a + offset: multiples with a constant more, such as 2n + 1.
            times, rest = divmod(y - x, b - a)
            offset = x - times * a
            # Small differences (up to 4) would be explained by any offset.
            if not rest and times > 0 and abs(offset) <= _MAX_OFFSET and abs(b - a) > 2 * _MAX_OFFSET:
                return group
        few = self.groups[:_MAX_RATIOS]
        products = (one for one in few for two in few if one.base < two.base and one.ratio * two.ratio == ratio)
        return next(products, None)

    def _explains(self, pair: SizePair) -> bool:
        return self.group_of(pair) is not None

    def is_of_arguments(self, group: SizeGroup) -> bool:
        """Whether an argument has a size of a group."""
        return any(self._in_arguments[pair] for pair in (group.base, *group.also))

    def explain(self, delta: ShapeDelta) -> bool:
        """Whether every changed size of a shape has a cause."""
        return all(map(self._explains, delta.sizes))

    def cause(self, delta: ShapeDelta) -> SizeGroup | None:
        """The first cause of a shape's changed sizes."""
        found = [group for pair in delta.sizes if (group := self.group_of(pair)) is not None]
        return min(found, key=self.groups.index) if found else None

    def _explains_integer(self, old: int, new: int) -> bool:
        """Whether a number is a size, or the last index of one."""
        # The index of the last element changes as the size does.
        return self._explains((old, new)) or any(
            (old + 1, new + 1) == pair for group in self.groups for pair in (group.base, *group.also)
        )

    def explain_elements(self, before: int, after: int) -> bool:
        """Whether a number of elements changed by the factors of causes, each once or twice."""
        if not before or not after or before == after:
            return False
        wanted = Fraction(after, before)
        found = {Fraction(1)}
        for group in self.groups[:_MAX_RATIOS]:
            # An array may have a size twice, as scores of attention do.
            found = {each * group.ratio**power for each in found for power in (0, 1, 2)}
        return wanted in found

    def explain_text(self, before: str, after: str) -> bool:
        """Whether two texts are equal but for whole numbers, each of which has a cause."""
        if not self.groups or _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
            return False
        numbers = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
        # Longer numbers are identifiers or hashes, not sizes, and may not fit 64 bits.
        return all(
            one == two or self._explains((int(one), int(two))) for one, two in numbers if max(len(one), len(two)) < 19
        )

    def explain_constant(self, before: str, after: str, *, is_narrow: bool = False) -> bool:
        """Whether a scalar changed by a product of powers and roots of the factors, or as a size does."""
        old, new = _number(before), _number(after)
        if old is None or new is None or not self.groups:
            return False
        # Integers are compared exactly, since a limit or an index is a size, not a scale.
        if old == int(old) and new == int(new) and self._explains_integer(abs(int(old)), abs(int(new))):
            return (old < 0) == (new < 0)
        if not old or not new or (old < 0) != (new < 0):
            return False
        wanted = math.log(new / old)
        # Half of each logarithm, so that whole multiples are roots and powers.
        factors = [math.log(group.ratio) / 2 for group in self.groups[:_MAX_RATIOS]]
        tolerance = _NARROW_TOLERANCE if is_narrow else _TOLERANCE
        return any(abs(wanted - power) < tolerance for power in _sums(factors))


def _are_together(own: frozenset[SizePair], explained: frozenset[SizePair], deltas: Sequence[ShapeDelta]) -> bool:
    """Whether most of the shapes with one of the sizes have a known one too."""
    shapes = [each.sizes for each in deltas if not own.isdisjoint(each.sizes)]
    return 2 * sum(not explained.isdisjoint(sizes) for sizes in shapes) >= len(shapes)


def _sums(factors: list[float]) -> list[float]:
    """Sums of small multiples of the logarithms, the empty one not counted."""
    found = [0.0]
    for factor in factors:
        found = [each + n * factor for each in found for n in range(-_MAX_POWER, _MAX_POWER + 1)]
    return [each for each in found if each]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _by_ratio(counts: Iterable[SizePair]) -> list[list[SizePair]]:
    groups: dict[Fraction, list[SizePair]] = {}
    for x, y in counts:
        if x > 0 and y > 0:
            groups.setdefault(Fraction(y, x), []).append((x, y))
    return list(groups.values())


# --- names of dimensions ---
# What users call a dimension: only where the labels of the arguments leave no doubt.


def _dimension_name(
    sizes: Sizes, group: SizeGroup, changed: Sequence[tuple[Argument, ShapeDelta]], arguments: Sequence[Argument]
) -> str:
    """The name of a size that changed: `batch size`, `sequence length`, `vocabulary size`, `hidden size`, or empty.

    - A batch is the first dimension of arguments that are not weights, a sequence another dimension of integers.
    - A vocabulary occurs in an embedding, and in no other weights than that and the output layer.
    - A hidden size is in most of the weights that are matrices.
    """
    of_group = [argument for argument, delta in changed if any(sizes.group_of(pair) is group for pair in delta.sizes)]
    if not of_group or not any(each.label for each in arguments):
        return ""
    if not any(each.is_weight for each in of_group):
        return _data_name(group, of_group, arguments)
    weights = [each for each in of_group if each.is_weight]
    if all(each.is_of_vocabulary for each in weights):
        return "vocabulary size"
    matrices = [each for each in arguments if each.is_weight and each.rank > 1]
    # A hidden size is in most matrices of a model; others, such as the width of one layer, get no name.
    has_most = 2 * sum(each.rank > 1 for each in weights) > len(matrices) > 1
    return "hidden size" if has_most and group.base[0] > 1 else ""


def _data_name(group: SizeGroup, changed: Sequence[Argument], arguments: Sequence[Argument]) -> str:
    if not any(each.is_weight for each in arguments):
        return ""
    sizes = {pair[0] for pair in (group.base, *group.also)}
    places = {place for each in changed for place in _places(each, sizes)}
    # The first dimension of data is its batch in all common frameworks.
    if places == {0}:
        return "batch size"
    # Token ids are the only integer data with a sequence; images have none.
    return "sequence length" if 0 not in places and any(each.is_integer for each in changed) else ""


def _places(argument: Argument, sizes: set[int]) -> list[int]:
    shape = argument.parameter.shape
    return [at for at, size in enumerate(shape.dimensions) if size in sizes] if isinstance(shape, ArrayShape) else []


# --- all that follows ---
# Sizes and element types that took the place of others everywhere, and all that follows from them.


# Gaps of 10 leave space for drafts between them; meshes (2) and layers (10) cause sizes.
SIZES: Final = 20
# After sizes: of a row with both, the size is told first.
TYPES: Final = 30
# After types, which explain products as well, and before arguments (40).
PRODUCTS: Final = 32
COMPILED_PRODUCTS: Final = 72
"""Ranks of the drafts."""
CONVERSION: Final = "convert_element_type"
"""JAX's name of a conversion in op_names."""
_MIN_TYPES: Final = 3
"""One or two values of another type are edits of their own, not a type that took the place of another."""
_FOLLOWING: Final = frozenset(("layout", "tiling", "memory_space", "backend_config", FUSED))
"""Kinds of changes that compilers derive from sizes and types."""
REARRANGING: Final = frozenset(
    (
        *(opcodes.PAD, opcodes.SLICE, opcodes.BITCAST, opcodes.COPY, opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.IOTA),
        *(opcodes.BROADCAST, opcodes.FUSION, opcodes.CONCATENATE, "dynamic-slice", "dynamic-update-slice"),
    )
)
"""Opcodes that compilers make of others: attributes of other instructions tell more."""
_PRODUCTS: Final = frozenset((opcodes.DOT, opcodes.CONVOLUTION, opcodes.RAGGED_DOT, opcodes.SCALED_DOT))
"""Opcodes whose operand types decide the unit that computes them, so that these types are edited on purpose."""
_MOVING: Final = frozenset((opcodes.BITCAST, opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.COPY, opcodes.BROADCAST))
"""Opcodes that keep each element as it is, so that the type before them is that of the value after them."""
_PASSING: Final = _MOVING | {opcodes.CONVERT, opcodes.FUSION, opcodes.PARAMETER}
"""What may be between a conversion and the product that it is for; a sum or a maximum is an operation of its own."""
_MOST_REACHED: Final = 256
"""Instructions that a converted value may pass on its way to a product: each layer passes a weight on by a few."""
_MOST_MOVES: Final = 32
"""Instructions between a conversion and a product that only move its value: some more than fusions of copies have."""
_NARROW: Final = ("bf16", "f16", "f8")
"""Types that compilers widen inside of products and print constants of with fewer digits."""
_ROUNDING: Final = {"bf16": 8, "f16": 11}
"""The number of significant bits of narrow types, one more than a rounding error has zeros."""

DIMENSION_NUMBERS: Final = frozenset(
    (
        "dimensions",
        "lhs_batch_dims",
        "rhs_batch_dims",
        "lhs_contracting_dims",
        "rhs_contracting_dims",
        "dim_labels",
        "window",
        "slice",
        "padding",
    )
)
"""Attributes that number dimensions, which change with the rank."""

TypePair = tuple[str, str]
Product = tuple[Instruction, Instruction, int | None]
"""A product in both modules, and its row if it has one."""


@dataclass(frozen=True, slots=True)
class ShapeChanges:
    """The changed shapes of a diff, by row: the position of the change among those of the row, and its delta."""

    rows: Mapping[int, tuple[int, ShapeDelta]]
    sizes: Sizes
    types: tuple[TypePair, ...]
    drafts: dict[SizePair, Draft] = field(default_factory=dict)
    """The draft for each group of sizes, by its base."""


def shape_changes_of(evidence: Evidence) -> ShapeChanges:
    """Reads the changed shapes of a diff, and finds the sizes and types that changed throughout."""
    deltas: dict[tuple[str, str], ShapeDelta | None] = {}
    rows: dict[int, tuple[int, ShapeDelta]] = {}
    in_arguments: list[ShapeDelta] = []
    for row, position, pair, change in evidence.open_changes("shape"):
        key = change.before, change.after
        if key not in deltas:
            deltas[key] = shape_delta(pair.before.shape, pair.after.shape)
        if (delta := deltas[key]) is not None:
            rows[row] = position, delta
            if is_argument(pair):
                in_arguments.append(delta)
    all_deltas = [delta for _, delta in rows.values()]
    return ShapeChanges(
        rows,
        Sizes(all_deltas, in_arguments, cache(lambda: _occurrences(evidence))),
        _types(all_deltas, in_arguments, max(len(all_deltas), len(evidence.diff.pairs))),
    )


def _occurrences(evidence: Evidence) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """How many paired arrays of the old and of the new module have a dimension of each size."""
    old: Counter[int] = Counter()
    new: Counter[int] = Counter()
    for before, after in evidence.diff.pairs.items():
        for counts, shape in ((old, before.shape), (new, after.shape)):
            if isinstance(shape, ArrayShape):
                counts.update(set(shape.dimensions))
    return old, new


def is_argument(pair: Changed) -> bool:
    """Whether a pair is an argument of the entry in both modules."""
    return all(i.opcode == opcodes.PARAMETER and i.computation.is_entry for i in (pair.before, pair.after))


def _types(deltas: Sequence[ShapeDelta], arguments: Sequence[ShapeDelta], pairs: int) -> tuple[TypePair, ...]:
    """The types that changed in several arguments, or else in much of the module."""
    counts = Counter(pair for each in deltas for pair in each.types)
    given = Counter(pair for each in arguments for pair in each.types)
    # A type that changed in a tenth of the values changed throughout, else it is an edit.
    least = max(_MIN_TYPES, _MIN_SHARE * pairs)
    found = [pair for pair, number in counts.items() if number >= least or (given[pair] and number > 1)]
    return tuple(sorted(found, key=lambda pair: (-given[pair], -counts[pair], sorted(pair))))


def find_types(evidence: Evidence, changes: ShapeChanges) -> dict[TypePair, Draft]:
    """A draft for each element type that took the place of another one; it claims the conversions between them."""
    drafts: dict[TypePair, Draft] = {}
    for pair in changes.types:
        converts = {
            is_added: [each for each in evidence.unowned(is_added=is_added) if _converts(each, pair)]
            for is_added in (True, False)
        }
        statement = TypeChange(
            Substitution(*pair),
            sum(pair in delta.types for _, delta in changes.rows.values()),
            len(converts[True]),
            len(converts[False]),
            _arguments(evidence, changes, pair),
        )
        drafts[pair] = draft = evidence.draft(TYPES, statement)
        for instructions in converts.values():
            evidence.claim(draft, instructions)
    return drafts


def _converts(instruction: Instruction, pair: TypePair) -> bool:
    if instruction.opcode != opcodes.CONVERT or len(instruction.operands) != 1:
        return False
    types = {str(each.shape).partition("[")[0] for each in (instruction, instruction.operands[0])}
    return types == set(pair)


def _arguments(evidence: Evidence, changes: ShapeChanges, pair: TypePair) -> str:
    labels = [
        argument_of(evidence.diff.changed[row].after).label
        for row, (_, delta) in changes.rows.items()
        if pair in delta.types and is_argument(evidence.diff.changed[row])
    ]
    return _shared_label(labels)


def find_products(evidence: Evidence, types: Mapping[TypePair, Draft], *, is_compiled: bool) -> None:
    """A draft for matrix products and convolutions of another element type than before, with their conversions.

    A type that changed throughout explains its products.
    """
    products_by_types: dict[tuple[str, TypePair], list[Product]] = {}
    rows = {each.after: row for row, each in enumerate(evidence.diff.changed)}
    for old, new in (*evidence.diff.pairs.items(), *_unpaired_products(evidence)):
        if (
            old.opcode in _PRODUCTS
            and new.opcode in _PRODUCTS
            and (pair := _operand_types(evidence, old, new)) is not None
        ):
            products_by_types.setdefault((new.opcode, pair), []).append((old, new, rows.get(new)))
    # A type that changed throughout explains its products, too.
    for (opcode, pair), products in products_by_types.items():
        if pair in types:
            continue
        names = tuple(new.name for _, new, _ in products)
        # convert_element_type in op_name is JAX's own: a conversion by the compiler has the product's op_name.
        is_by_compiler = is_compiled and not _has_own_conversions(evidence, products)
        rank = COMPILED_PRODUCTS if is_by_compiler else PRODUCTS
        draft = evidence.draft(rank, ProductChange(opcode, Substitution(*pair), names, is_by_compiler))
        for old, new, row in products:
            evidence.claim(draft, (each for each in (old, new) if each in evidence.removed or each in evidence.added))
            if row is not None:
                _claim_kinds(evidence, draft, row, ("shape", "operands", *_FOLLOWING))
        _claim_conversions(evidence, draft, pair, products)


def _operand_types(evidence: Evidence, old: Instruction, new: Instruction) -> TypePair | None:
    """The element types of an operand that differ, or those that it was rounded to."""
    for before, after in zip(old.operands, new.operands, strict=False):
        x, y = before.shape, after.shape
        if not isinstance(x, ArrayShape) or not isinstance(y, ArrayShape):
            continue
        if x.element_type is not y.element_type:
            return str(x.element_type), str(y.element_type)
        if evidence.added or evidence.removed:
            types = _rounded_type(evidence, before, is_added=False), _rounded_type(evidence, after, is_added=True)
            if types[0] != types[1]:
                return types
    return None


def _rounded_type(evidence: Evidence, value: Instruction, *, is_added: bool) -> str:
    """The element type of a value, or the narrow one that it was converted from: where compilers widen products."""
    widest = str(value.shape).partition("[")[0]
    for _ in range(_MOST_MOVES):
        match value.opcode:
            case opcodes.CONVERT if len(value.operands) == 1:
                source = str(value.operands[0].shape).partition("[")[0]
                # XLA widens bf16 products on CPU (float normalization, change-op-data-type), so the narrow type is one
                # conversion away.
                return source if source.startswith(_NARROW) else widest
            case opcodes.PARAMETER:
                caller, number = evidence.caller(value.computation, is_added=is_added), value.parameter_number
                if caller is None or number is None or number >= len(caller.operands):
                    return widest
                value = caller.operands[number]
            case opcodes.FUSION if value.called_computations and value.called_computations[0].root is not None:
                value = value.called_computations[0].root
            case opcode if opcode in _MOVING and len(value.operands) == 1:
                value = value.operands[0]
            case _:
                return widest
    return widest


def _unpaired_products(evidence: Evidence) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields products of one module only that have the same sizes, in their order."""
    old, new = (
        [each for each in evidence.unowned(is_added=is_added) if each.opcode in _PRODUCTS] for is_added in (False, True)
    )
    waiting: dict[tuple[tuple[int, ...], ...], list[Instruction]] = {}
    # Reversed, so that pop() takes them in order.
    for two in reversed(new):
        waiting.setdefault(_sizes(two), []).append(two)
    for one in old:
        if alike := waiting.get(_sizes(one)):
            yield one, alike.pop()


def _sizes(product: Instruction) -> tuple[tuple[int, ...], ...]:
    shapes = (product.shape, *(operand.shape for operand in product.operands))
    return tuple(shape.dimensions if isinstance(shape, ArrayShape) else () for shape in shapes)


def _claim_conversions(evidence: Evidence, draft: Draft, pair: TypePair, products: Sequence[Product]) -> None:
    """The conversions of operands and results, and the shapes of what is between them and the products."""
    narrow = set(pair)
    for is_added in (True, False):
        ours = {two if is_added else one for one, two, _ in products}
        near = {user for each in ours for user in evidence.users(each, is_added=is_added)}
        converts = [
            each
            for each in evidence.unowned(is_added=is_added)
            if each.opcode == opcodes.CONVERT
            and len(each.operands) == 1
            and {str(shape).partition("[")[0] for shape in (each.shape, each.operands[0].shape)} <= narrow
        ]
        evidence.claim(
            draft, (each for each in converts if each in near or _is_moved_to(each, ours, evidence, is_added=is_added))
        )


def _has_own_conversions(evidence: Evidence, products: Sequence[Product]) -> bool:
    """Whether a conversion of one module that the program asks for, by its op_name, reaches one of the products."""
    for is_added in (True, False):
        ours = {two if is_added else one for one, two, _ in products}
        for each in evidence.alone(is_added=is_added):
            is_own = each.opcode == opcodes.CONVERT and CONVERSION in each.raw[1]
            if is_own and _is_moved_to(each, ours, evidence, is_added=is_added):
                return True
    return False


def _is_moved_to(convert: Instruction, products: Container[Instruction], evidence: Evidence, *, is_added: bool) -> bool:
    """Whether a converted value reaches a product through instructions that only move or convert elements."""
    todo, reached = [convert], {convert}
    # Enough for a weight's path; without the limit, one converted value reaches the whole network.
    while todo and len(reached) < _MOST_REACHED:
        value = todo.pop()
        users = evidence.users(value, is_added=is_added)
        caller = evidence.caller(value.computation, is_added=is_added) if value.is_root else None
        for user in (*users, *((caller,) if caller is not None else ())):
            inner = (
                user.called_computations[0].parameters if user.opcode == opcodes.FUSION and user is not caller else ()
            )
            inside = [p for p in inner if p.parameter_number is not None and user.operands[p.parameter_number] is value]
            if user in products:
                return True
            for next_value in (user, *inside):
                if next_value not in reached and next_value.opcode in _PASSING:
                    reached.add(next_value)
                    todo.append(next_value)
    return False


def find_origins(evidence: Evidence, changes: ShapeChanges) -> None:
    """A draft for each size that an instruction makes from unchanged operands, because its attributes are other ones.

    The stride of a convolution changes the sizes of all that follows; the stride is what happened.
    """
    # Attributes of instructions that rearrange are often derived from others, so they come last.
    rows = sorted(changes.rows.items(), key=lambda row: evidence.diff.changed[row[0]].after.opcode in REARRANGING)
    for row, (shape_position, delta) in rows:
        changed_pair = evidence.diff.changed[row]
        groups = {group.base: group for pair in delta.sizes if (group := changes.sizes.group_of(pair)) is not None}
        free = [g for base, g in groups.items() if base not in changes.drafts and not changes.sizes.is_of_arguments(g)]
        causes = [
            (place, change)
            for place, change in enumerate(changed_pair.changes)
            if change.kind == "attributes" and change.name
        ]
        if not free or not causes or not _has_same_operands(evidence, changed_pair):
            continue
        change = causes[0][1]
        statement = ValueChange(
            "attribute",
            change.name,
            ((Substitution(change.before, change.after), 1),),
            1,
            (changed_pair.after.name,),
            free[0].shapes - 1,
        )
        draft = evidence.draft(SIZES, statement)
        changes.drafts.update(dict.fromkeys((group.base for group in free), draft))
        for claimed_position, _ in ((shape_position, None), *causes):
            evidence.claim_change(draft, row, claimed_position)


def _has_same_operands(evidence: Evidence, pair: Changed) -> bool:
    """Whether a pair has operands of the same shapes."""
    shapes = [[operand.shape.to_string(layout=False) for operand in one.operands] for one in (pair.before, pair.after)]
    return bool(shapes[0]) and shapes[0] == shapes[1]


def _claim_kinds(evidence: Evidence, draft: Draft, row: int, kinds: Container[str]) -> None:
    for at, change in enumerate(evidence.diff.changed[row].changes):
        if change.kind in kinds:
            evidence.claim_change(draft, row, at)


def find_sizes(evidence: Evidence, changes: ShapeChanges, *, is_compiled: bool) -> None:
    """A draft for each size that changed throughout and has none yet; two that change in the same shapes share one."""
    partners = _partners(changes)
    for group in changes.sizes.groups:
        if group.base not in changes.drafts and not _is_from_alone(evidence, changes, group):
            others = [other for other in partners[group.base] if other.base not in changes.drafts]
            is_internal = is_compiled and not any(map(changes.sizes.is_of_arguments, (group, *others)))
            statement = replace(_statement(evidence, changes, group, others), is_internal=is_internal)
            draft = evidence.draft(SIZES, statement)
            changes.drafts.update(dict.fromkeys((group.base, *(other.base for other in others)), draft))


def _is_from_alone(evidence: Evidence, changes: ShapeChanges, group: SizeGroup) -> bool:
    """Whether an instruction of one module only makes the size: what was added or removed is the cause."""
    if changes.sizes.is_of_arguments(group):
        return False
    for row, (_, delta) in changes.rows.items():
        if any(changes.sizes.group_of(pair) is group for pair in delta.sizes):
            each = evidence.diff.changed[row]
            sides = (
                _operands_of(evidence, one, is_added=two) for one, two in ((each.before, False), (each.after, True))
            )
            # What was added or removed has other sizes itself.
            return any(operand.opcode in _CUTTING for side in sides for operand in side)
    return False


_CUTTING: Final = frozenset(
    (opcodes.SLICE, opcodes.PAD, opcodes.CONCATENATE, opcodes.GATHER, "dynamic-slice", "reduce")
)
"""Opcodes with other sizes in their result than in their operands: one of them explains a size by itself."""


def _operands_of(evidence: Evidence, instruction: Instruction, *, is_added: bool) -> Iterator[Instruction]:
    """Yields the operands that only one module has; of a fusion, what its computation has."""
    alone = evidence.added if is_added else evidence.removed
    inner = (
        (i for called in instruction.called_computations for i in called.instructions)
        if instruction.opcode == opcodes.FUSION
        else ()
    )
    yield from (operand for operand in (*instruction.operands, *inner) if operand in alone)


def _partners(changes: ShapeChanges) -> Mapping[SizePair, list[SizeGroup]]:
    """For each group the smaller groups of which most shapes also have a size of the group."""
    groups = changes.sizes.groups
    together: Counter[tuple[SizePair, SizePair]] = Counter()
    alone: Counter[SizePair] = Counter()
    for _, delta in changes.rows.values():
        found = {group.base for pair in delta.sizes if (group := changes.sizes.group_of(pair)) is not None}
        alone.update(found)
        together.update((one, two) for one in found for two in found if one != two)
    order = [group.base for group in groups]
    return {
        group.base: [
            other
            for at, other in enumerate(groups)
            # At least half of its shapes: two sizes that change in the same arrays are one edit, such as height and
            # width.
            if at > order.index(group.base) and 2 * together[group.base, other.base] >= alone[other.base]
        ]
        for group in groups
    }


def _statement(
    evidence: Evidence, changes: ShapeChanges, group: SizeGroup, others: Sequence[SizeGroup]
) -> DimensionChange:
    arguments = [
        (argument_of(each.before), delta)
        for row, (_, delta) in changes.rows.items()
        if is_argument(each := evidence.diff.changed[row])
    ]
    parameters = [argument_of(each) for each in evidence.diff.before.entry.parameters]
    bases = {group.base, *(other.base for other in others)}
    shapes = sum(
        any((found := changes.sizes.group_of(pair)) is not None and found.base in bases for pair in delta.sizes)
        for _, delta in changes.rows.values()
    )
    return DimensionChange(
        _dimension_name(changes.sizes, group, arguments, parameters) if not others else "",
        substitution(group.base),
        tuple(map(substitution, group.also)),
        tuple(substitution(other.base) for other in others),
        shapes,
    )


def substitution(pair: SizePair) -> Substitution:
    """The texts of two sizes.

    >>> print(substitution((1024, 1280)))
    1,024 → 1,280
    """
    return Substitution(f"{pair[0]:,}", f"{pair[1]:,}")


def claim_shapes(evidence: Evidence, changes: ShapeChanges, types: Mapping[TypePair, Draft]) -> None:
    """Gives the changed shapes to the drafts of their sizes and types, and what follows from them in the same rows."""
    for row, (position, delta) in changes.rows.items():
        if (
            not (delta.sizes or delta.types)
            or delta.is_rearranged
            or not changes.sizes.explain(delta)
            or not delta.types <= types.keys()
        ):
            continue
        cause = changes.sizes.cause(delta)
        draft = changes.drafts[cause.base] if cause is not None else types[min(delta.types, key=changes.types.index)]
        evidence.claim_change(draft, row, position)
        for following, change in enumerate(evidence.diff.changed[row].changes):
            if change.kind in _FOLLOWING:
                evidence.claim_change(draft, row, following)
    _claim_numbers(evidence, changes)
    _claim_types(evidence, types)


def claim_reshaped(evidence: Evidence, changes: ShapeChanges) -> None:
    """Arrays of another rank whose number of elements changed by the factors of sizes, and their dimension numbers."""
    groups = changes.sizes.groups
    if not groups:
        return
    for row, position, pair, _ in evidence.open_changes("shape"):
        old, new = pair.before.shape, pair.after.shape
        if (
            isinstance(old, ArrayShape)
            and isinstance(new, ArrayShape)
            and old.element_type is new.element_type
            and changes.sizes.explain_elements(old.elements, new.elements)
        ):
            # The first is the most frequent group, and a number of elements cannot tell which group it is of.
            draft = changes.drafts[groups[0].base]
            evidence.claim_change(draft, row, position)
            for following, change in enumerate(pair.changes):
                if change.kind in _FOLLOWING or change.name in DIMENSION_NUMBERS:
                    evidence.claim_change(draft, row, following)


def _claim_numbers(evidence: Evidence, changes: ShapeChanges) -> None:
    """Constants and attributes in which only sizes changed."""
    if not changes.sizes.groups:
        return
    draft = changes.drafts[changes.sizes.groups[0].base]
    for row, position, pair, change in evidence.open_changes("constants", "attributes", "backend_config", "sharding"):
        if change.kind == "constants":
            # A constant of a narrow type is printed after rounding.
            is_narrow = str(pair.after.shape).startswith(_NARROW)
            explained = changes.sizes.explain_constant(change.before, change.after, is_narrow=is_narrow)
        else:
            explained = changes.sizes.explain_text(change.before, change.after)
        if explained:
            evidence.claim_change(draft, row, position)


def _claim_types(evidence: Evidence, types: Mapping[TypePair, Draft]) -> None:
    """Constants that are the same number in another type, and callees that differ by it."""
    if not types:
        return
    draft = next(iter(types.values()))
    narrow = {name for pair in types for name in pair if name in _ROUNDING}
    for row, at, _, change in evidence.open_changes("constants"):
        if any(_is_rounded(change.before, change.after, name) for name in narrow):
            evidence.claim_change(draft, row, at)


def _is_rounded(before: str, after: str, element_type: str) -> bool:
    """Whether two constants are one number, in one of the modules rounded to an element type.

    >>> _is_rounded("0.01", "0.0100097656", "bf16"), _is_rounded("0.01", "0.02", "bf16")
    (True, False)
    """
    try:
        one, two = float(before), float(after)
    except ValueError:
        return False
    # A rounding error of half a unit in the last of n bits is 2^-n of the number.
    tolerance = 2.0 ** -_ROUNDING[element_type]
    return abs(one - two) <= tolerance * max(abs(one), abs(two))
