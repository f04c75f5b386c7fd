"""Shapes and layouts: their text, what XLA refuses, and their sizes in bytes (expected values from XLA's own, see below)."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from hlo_cli.ir.layout import PRIMITIVE_TYPES, Layout
from hlo_cli.ir.shape import UNBOUNDED, ArrayShape, BufferShape, OpaqueShape, Shape, TokenShape, TupleShape, subshape
from hlo_cli.source import HloError
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from share import examples
from strategies import a_shape, seeds, shapes, spaced

thorough = settings(max_examples=examples(300))


def array(text: str) -> ArrayShape:
    """An array shape, parsed."""
    shape = parse_shape(text)
    assert isinstance(shape, ArrayShape)
    return shape


# XLA's layout_test.cc and shape_util_test.cc print these exactly so.
LAYOUTS = (
    "{1,2,0}", "{3,2,1,0:T(42,123)(4,5)}", "{3,2,1,0:T(*,*,42,123)}", "{3,2,1,0:L(100)}", "{3,2,1,0:#(u32)}",
    "{3,2,1,0:*(u16)}", "{3,2,1,0:E(42)}", "{3,2,1,0:S(3)}", "{0,1:SC(0:3)(1:0,4)}", "{0,1:M(123)}",
    "{3,2,1,0:T(42,123)(4,5)L(100)E(42)}", "{0,1:T(8,128)(2,1)L(4)#(u32)*(u32)E(4)S(3)SC(0:2)M(16)}",
)  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_print_as_xla_prints_them(layout: str) -> None:
    rank = layout.partition(":")[0].count(",") + 1
    text = f"f32[{','.join('2' * rank)}]{layout}"
    assert str(parse_shape(text)) == text


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("f32[2,3]", "f32[2,3]{1,0}"),
        ("f32[]", "f32[]"),
        ("f32[2]{0:}", "f32[2]{0}"),
        ("u32[]{:T(128)S(1)}", "u32[]{:T(128)S(1)}"),
        ("f32[2,3]{1,0:D(D,C)}", "f32[2,3]{1,0}"),
        ("f32 [ 2 , 3 ] { 1 , 0 : T ( 8 , 128 ) }", "f32[2,3]{1,0:T(8,128)}"),
        ("f32[?,<=7,2]", "f32[?,<=7,2]{2,1,0}"),
        ("b(f32[4])", "b(f32[4]{0})"),
        ("b (f32[4]{0:S(1)})", "b(f32[4]{0:S(1)})"),
        ("()", "()"),
        ("(token[],opaque[])", "(token[], opaque[])"),
        ("(u8[],u8[],u8[],u8[],u8[],u8[])", "(u8[], u8[], u8[], u8[], u8[], /*index=5*/u8[])"),
        ("f32[2] /* two */", "f32[2]{0}"),
        ("f32[2]{0:S(200)}", "f32[2]{0:S(-56)}"),
    ],
)
def test_what_xla_prints_for_other_spellings(written: str, printed: str) -> None:
    assert str(parse_shape(written)) == printed


REFUSED = (
    "f99[2", "f32[2", "f32[,2]", "f32[2]{}", "f32[2,3]{0}", "f32[<=?]", "f32[2]{0:S(1)T(8,128)}", "f32[2]{0:S(1)E(4)}",
    "f32[2]x", "", "(", "(f32[2]", "f32[-2]", "f32[2]{0:T}", "f32[2]{0:T(8}", "f32[2]{0,}", "b(token[])", "f32[2]{0:Q(1)}",
    "f32[99999999999999999999]",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_shape_is_an_error_with_a_place(text: str) -> None:
    with pytest.raises(HloError) as caught:
        parse_shape(text)
    span = caught.value.diagnostic.span
    assert span is not None
    assert 0 <= span.start <= span.end <= len(text)


# Executed with jaxlib 0.10.2: element count, bytes of the elements, bytes with padding (XLA's ShapeUtil::ArraySize).
SIZES = (
    ("f32[3,130]", 390, 1560, 1560),
    ("f32[3,130]{1,0:T(8,128)}", 390, 1560, 8192),
    ("bf16[2,3,4]{1,2,0:T(16,256)(2,1)}", 24, 48, 16384),
    ("pred[8,8,8]{0,2,1:T(8,128)E(32)}", 512, 2048, 32768),
    ("s4[9216,6144]{1,0:T(64,128)(8,1)E(4)}", 56623104, 28311552, 28311552),
    ("s4[64,128]{1,0}", 8192, 8192, 8192),
    ("s4[64,128]{1,0:E(4)}", 8192, 4096, 4096),
    ("f32[8]{0:T(2,2)}", 8, 32, 64),
    ("u32[]{:T(128)}", 1, 4, 512),
    ("f32[0,5]{1,0:T(8,128)}", 0, 0, 0),
    ("s2[3]{0:E(2)}", 3, 1, 1),
    ("c128[2]", 2, 32, 32),
    ("f32[<=10,7]", 70, 280, 288),
    ("f32[10]{0:L(128)}", 10, 40, 40),  # without tiles, L is not applied
    ("f32[10]{0:T(1)L(128)}", 10, 40, 512),
    ("token[]", None, 0, 0),
    ("opaque[]", None, 0, 0),
    ("()", None, 0, 0),
    ("(f32[2], (s4[3], pred[]))", None, 12, 12),
    ("b(f32[3,130]{1,0:T(8,128)})", None, 1560, 8192),
)


@pytest.mark.parametrize(("text", "elements", "logical", "padded"), SIZES)
def test_sizes(text: str, elements: int | None, logical: int, padded: int) -> None:
    shape = parse_shape(text)
    assert (shape.logical_bytes, shape.padded_bytes) == (logical, padded)
    if isinstance(shape, ArrayShape):
        assert shape.elements == elements


# reference: LayoutUtil::ValidateLayoutForShape, in the order in which it looks
@pytest.mark.parametrize(
    "text",
    [
        "f32[2,3]{1,1}", "f32[2,3]{2,0}", "f32[2]{0:L(0)}", "f32[2]{0:#(u32)}", "f32[2]{0:*(u8)}", "f32[2]{0:T()}",
        "f32[2]{0:T(0)}", "f32[2,3]{1,0:T(8,*)}", "f32[4]{0:SC(1:2)}", "f32[4]{0:SC(0:2,2)}", "f32[4]{0:SC(0:4)}",
        "f32[4]{0:SC(0:1)(0:2)}", "f32[9223372036854775807,3]",
    ],
)  # fmt: skip
def test_layouts_that_hold_no_buffer(text: str) -> None:
    shape = array(text)
    assert shape.problem
    with pytest.raises(HloError):
        _ = shape.tiling
    assert shape.padded_bytes >= 0  # a number all the same: a listing goes on


@pytest.mark.parametrize(
    "text", ["u32[]{:T(128)}", "f32[2]{0:T(8,128)(2,1)(4,1,1,1,1)}", "f32[4]{0:SC(0:1,3)}", "f32[0]{0}"]
)
def test_layouts_that_do(text: str) -> None:
    assert array(text).problem is None


def test_widths_of_types() -> None:
    """Widths in bits as xla/primitive_util.h has them."""
    narrow = {
        "s1": 1,
        "u1": 1,
        "pred": 1,
        "s2": 2,
        "u2": 2,
        "s4": 4,
        "u4": 4,
        "f4e2m1fn": 4,
        "f6e2m3fn": 6,
        "f6e3m2fn": 6,
    }
    wide = {"s64": 64, "u64": 64, "f64": 64, "c64": 64, "c128": 128, "s32": 32, "u32": 32, "f32": 32}
    half = {"s16": 16, "u16": 16, "f16": 16, "bf16": 16}
    assert {k: t.bits for k, t in PRIMITIVE_TYPES.items() if t.bits != 8} == narrow | wide | half
    assert all(t.byte_width == max(1, t.bits // 8) for t in PRIMITIVE_TYPES.values())


def test_a_layout_ignores_the_metadata_prefix_when_compared() -> None:
    """As XLA's `Layout::Equal` does; the text tells them apart."""
    plain, prefixed = array("f32[2]{0}"), array("f32[2]{0:M(16)}")
    assert plain == prefixed
    assert hash(plain) == hash(prefixed)
    assert str(plain) != str(prefixed)


@given(shapes)
@thorough
def test_shapes_are_values(shape: Shape) -> None:
    again = parse_shape(str(shape))
    assert again == shape
    assert hash(again) == hash(shape)
    assert parse_shape(shape.to_string(layout=False)).to_string(layout=False) == shape.to_string(layout=False)


@given(shapes)
@thorough
def test_leaves_add_up(shape: Shape) -> None:
    leaves = list(shape.leaves)
    assert sum(leaf.logical_bytes for _, leaf in leaves) == shape.logical_bytes
    assert sum(leaf.padded_bytes for _, leaf in leaves) == shape.padded_bytes
    for index, leaf in leaves:
        assert subshape(shape, index) is leaf
        assert not isinstance(leaf, TupleShape)
    if isinstance(shape, TupleShape):
        assert subshape(shape, (len(shape.elements),)) is None


@given(shapes)
@thorough
def test_padding_never_takes_away(shape: Shape) -> None:
    for _, leaf in shape.leaves:
        if isinstance(leaf, BufferShape):
            leaf = leaf.array
        if isinstance(leaf, ArrayShape) and not leaf.layout.split_configs:
            assert leaf.padded_bytes >= leaf.logical_bytes
            bare = replace(
                leaf, layout=Layout(leaf.layout.minor_to_major, element_size_in_bits=leaf.layout.element_size_in_bits)
            )
            assert bare.padded_bytes == bare.logical_bytes + bare.metadata_bytes


def test_an_unbounded_dimension_counts_once() -> None:
    assert array("f32[?,3]").dimensions == (UNBOUNDED, 3)
    assert array("f32[?,3]").logical_bytes == 12


def test_unknown_types_are_kept() -> None:
    assert str(parse_shape("(f5e2[8]{0:T(8)}, f32[])")) == "(f5e2[8]{0:T(8)}, f32[])"


@pytest.mark.oracle
@pytest.mark.parametrize(
    "text", [*(text for text, *_ in SIZES), *(f"f32[2,3,4,5]{x}" for x in LAYOUTS if x.startswith("{3"))]
)
def test_xla_prints_shapes_as_we_do(text: str) -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    assert str(hlo.Shape(text)) == str(parse_shape(text))


@pytest.mark.oracle
def test_xla_prints_made_up_shapes_as_we_do() -> None:
    hlo = pytest.importorskip("jaxlib._hlo")
    for seed in range(3000):
        random = Random(seed)
        text = re.sub(r"[#*]\([a-z0-9]+\)", "", str(a_shape(random, seed % 5)))  # in a tuple XLA refuses sparse arrays
        text = spaced(text.replace(":}", "}").replace("{}", ""), random)
        assert str(hlo.Shape(text)) == str(parse_shape(text))


@pytest.mark.oracle
def test_xla_refuses_what_we_refuse() -> None:
    """One token changed, left out or put in: either both read it, and as the same, or neither does."""
    hlo = pytest.importorskip("jaxlib._hlo")
    differ = []
    for text in _damaged():
        try:
            theirs = str(hlo.Shape(text))
        except Exception:  # noqa: BLE001 # jaxlib has no exception of its own
            theirs = "refused"
        try:
            ours = str(parse_shape(text))
        except HloError:
            ours = "refused"
        if ours != theirs and not (theirs == "refused" and _has_unknown_type(text)) and not _xla_mends(text):
            differ.append((text, ours, theirs))
    assert not differ


def _xla_mends(text: str) -> bool:
    """XLA takes any token for a closing parenthesis in a layout, and split points may be none."""
    return text.count("(") != text.count(")") or re.search(r"\*\)|[SE*]\}|\(0:\)", text) is not None


def _has_unknown_type(text: str) -> bool:
    """We keep types that XLA may come to have."""
    return any(word not in (*PRIMITIVE_TYPES, "token") for word in re.findall(r"([A-Za-z]\w*)\[", text))


_TOKENS = ("[", "]", "{", "}", "(", ")", ",", ":", "*", "?", "<=", "1", "07", "f32", "b", "T", "S", "E", "M", "SC", " ")
_SAMPLES = (
    "f32[2,3]{1,0:T(8,128)(2,1)E(4)S(1)}", "(s4[3], token[], b(u8[1]))", "f32[<=2,?]{1,0}", "pred[]{:T(128)}", "f32[4]{0:SC(0:2)M(16)}",
)  # fmt: skip


def _damaged() -> list[
    str
]:  # XLA ends the process at L(0), at tiles below zero, at `*` by `-`; nothing here leads there
    random, found = Random(5), []
    for _ in range(4000):
        tokens = re.findall(r"[A-Za-z]+[0-9]*|[0-9]+|<=|.", random.choice(_SAMPLES))
        at = random.randrange(len(tokens))
        tokens[at : at + random.randrange(2)] = random.choices(_TOKENS, k=random.randrange(2))
        found.append("".join(tokens))
    return found


@given(seeds)
@thorough
def test_kinds_of_shapes_are_told_apart(seed: int) -> None:
    shape = parse_shape(str(a_shape(Random(seed), 1)))
    assert isinstance(shape, ArrayShape | TupleShape | BufferShape | TokenShape | OpaqueShape)
