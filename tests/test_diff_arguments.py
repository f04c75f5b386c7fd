"""Arguments, results, and elements of loops that are inserted: they are rows, and what shifts is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from edits import Draft, Line
from hlo_cli import parse_module
from hlo_cli.analysis.matching.module_diff import ModuleDiff, diff
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import Shape
from inserting import Insertion, array_shapes
from strategies import FIXTURES, dump_text

NAMES = (
    *(
        "cpu/softmax/before_optimizations.txt",
        "cpu/names/after_optimizations.txt",
        "gpu/h100_fp8/after_optimizations.txt",
    ),
    *("gpu/a100_conv/after_optimizations.txt", "gpu/h100_scan/after_optimizations.txt"),
    *("tpu/v2_mlp/after_optimizations.txt", "tpu/v5e_branches/before_optimizations.txt"),
    *("tpu/v5e_branches/after_optimizations.txt", "tpu/v5e_conv/before_optimizations.txt"),
    *("tpu/v5e_offload/after_optimizations.txt", "tpu/v6e_quantised/after_optimizations.txt"),
)
LOOPS = tuple(name for name in NAMES if "scan" in name or "branches" in name)


def rows(found: ModuleDiff) -> list[str]:
    """All differences, the header's too."""
    return [
        *(f"~ {each.before.name}: {'; '.join(map(str, each.changes))}" for each in found.changed),
        *(f"+ {instruction.name}" for instruction in found.added),
        *(f"- {instruction.name}" for instruction in found.removed),
        *map(str, found.header),
    ]


def insertion(name: str, at: float) -> tuple[Module, Insertion, int, Random]:
    """A module, a draft of it, the number of an argument at this share of all, and a source of random numbers."""
    module = parse_module(dump_text(FIXTURES / name))
    return module, Insertion(module), round(at * len(module.entry.parameters)), Random(f"{name} {at}")


def shape_of_argument(draft: Insertion, random: Random) -> Shape:
    """The shape of another argument, so that numbers do not tell them apart."""
    return random.choice(array_shapes([line for line in draft.entry if line.opcode == "parameter"]))


def assert_rows(module: Module, draft: Insertion, expected: set[str]) -> None:
    """In one direction they are added, in the other removed."""
    other = parse_module(draft.text())
    assert not other.errors
    assert set(rows(diff(module, other))) == {f"+ {name}" for name in expected}
    assert set(rows(diff(other, module))) == {f"- {name}" for name in expected}


positions = pytest.mark.parametrize("at", [0, 0.5, 1], ids=["begin", "middle", "end"])


@positions
@pytest.mark.parametrize("name", NAMES)
def test_an_argument_is_one_row_or_two_with_its_use(name: str, at: float) -> None:
    module, draft, number, random = insertion(name, at)
    argument = draft.argument(number, shape_of_argument(draft, random))
    assert_rows(module, draft, {"inserted.argument"})
    used = draft.use(argument, draft.entry, random)
    assert_rows(module, draft, {"inserted.argument", "inserted.use"} if used else {"inserted.argument"})


@positions
@pytest.mark.parametrize("name", [name for name in NAMES if "conv" not in name and "softmax" not in name])
def test_a_result_is_one_row(name: str, at: float) -> None:
    module, draft, _, random = insertion(name, at)
    root = next(line for line in draft.entry if line.is_root)
    source = random.choice([line for line in draft.entry if array_shapes([line])])
    result = Line("inserted.result", source.shape, "copy", [(source, "")], "", [], False)
    draft.entry.insert(draft.entry.index(root), result)
    draft.result(round(at * len(root.operands)), result)
    assert_rows(module, draft, {"inserted.result"})


@positions
@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_carries_is_no_row(name: str, at: float) -> None:
    """The loop's tuples, the indices of its elements, and their shardings follow the argument."""
    module, draft, number, random = insertion(name, at)
    loop = draft.loops()[0]
    argument = draft.argument(number, shape_of_argument(draft, random))
    element = draft.element(loop, round(at * len(loop.operands[0][0].operands)), argument)
    assert_rows(module, draft, {"inserted.argument"})
    if draft.use(element, draft.body(loop), random):
        assert_rows(module, draft, {"inserted.argument", "inserted.use"})


TUPLES = """HloModule m
body {
  p = (f32[4]{0}, f32[4]{0}, s32[]) parameter(0)
  x = f32[4]{0} get-tuple-element(p), index=0
  y = f32[4]{0} get-tuple-element(p), index=1
  i = s32[] get-tuple-element(p), index=2
  n = f32[4]{0} negate(x)
  m = f32[4]{0} abs(y)
  ROOT t = (f32[4]{0}, f32[4]{0}, s32[]) tuple(n, m, i)
}
condition {
  q = (f32[4]{0}, f32[4]{0}, s32[]) parameter(0)
  j = s32[] get-tuple-element(q), index=2
  ROOT c = pred[] compare(j, j), direction=LT
}
ENTRY e {
  a = f32[4]{0} parameter(0)
  b = f32[4]{0} parameter(1)
  k = s32[] constant(0)
  u = (f32[4]{0}, f32[4]{0}, s32[]) tuple(a, b, k)
  w = (f32[4]{0}, f32[4]{0}, s32[]) while(u), body=body, condition=condition
  g = f32[4]{0} get-tuple-element(w), index=0
  h = f32[4]{0} get-tuple-element(w), index=1
  ROOT r = (f32[4]{0}, f32[4]{0}) tuple(g, h)
}
"""


def edited(*edits: tuple[str, str]) -> ModuleDiff:
    """The difference between the loop and the same with these texts replaced."""
    text = TUPLES
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return diff(parse_module(TUPLES), parse_module(text))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("tuple(n, m, i)", "tuple(m, n, i)", "t"),
        ("tuple(g, h)", "tuple(h, g)", "r"),
        ("x = f32[4]{0} get-tuple-element(p), index=0", "x = f32[4]{0} get-tuple-element(p), index=1", "x"),
        ("g = f32[4]{0} get-tuple-element(w), index=0", "g = f32[4]{0} get-tuple-element(w), index=1", "g"),
    ],
)
def test_other_elements_are_a_change(old: str, new: str, name: str) -> None:
    found = edited((old, new))
    assert not found.is_empty
    assert not found.added
    assert not found.removed
    assert name in {each.before.name for each in found.changed} or len(found.changed) == 2


def test_elements_in_another_order_throughout_are_no_change() -> None:
    """A loop that carries its values in another order computes the same."""
    assert edited(
        ("tuple(a, b, k)", "tuple(b, a, k)"),
        ("tuple(n, m, i)", "tuple(m, n, i)"),
        ("x = f32[4]{0} get-tuple-element(p), index=0", "x = f32[4]{0} get-tuple-element(p), index=1"),
        ("y = f32[4]{0} get-tuple-element(p), index=1", "y = f32[4]{0} get-tuple-element(p), index=0"),
        ("g = f32[4]{0} get-tuple-element(w), index=0", "g = f32[4]{0} get-tuple-element(w), index=1"),
        ("h = f32[4]{0} get-tuple-element(w), index=1", "h = f32[4]{0} get-tuple-element(w), index=0"),
    ).is_empty


def test_initial_values_in_another_order_are_a_change() -> None:
    assert not edited(("tuple(a, b, k)", "tuple(b, a, k)")).is_empty


def test_tuples_follow_what_an_element_did() -> None:
    """An element that becomes bf16 in a loop is the rows of what makes it, not of the loop and its tuples."""
    text = TUPLES.replace("f32[4]{0}, s32[])", "bf16[4]{0}, s32[])")
    for line in ("y = f32", "m = f32", "b = f32", "h = f32"):
        text = text.replace(line, line.replace("f32", "bf16"))
    text = text.replace("ROOT r = (f32[4]{0}, f32[4]{0})", "ROOT r = (f32[4]{0}, bf16[4]{0})")
    found = diff(parse_module(TUPLES), parse_module(text))
    assert rows(found) == ["~ b: shape f32[4] → bf16[4]", "~ m: shape f32[4] → bf16[4]"] or rows(found) == [
        "~ m: shape f32[4] → bf16[4]",
        "~ b: shape f32[4] → bf16[4]",
    ]


HEADER = """HloModule m, input_output_alias={{ {{0}}: ({0}, {{}}, {kind}) }}, buffer_donor={{ ({1}, {{}}) }}, \
entry_computation_layout={{({more}f32[4]{{{layout}}}, f32[8]{{0}})->(f32[4]{{0}}, f32[8]{{0}})}}
ENTRY e {{
  {inserted}
  a = f32[4]{{0}} parameter({0})
  b = f32[8]{{0}} parameter({1})
  ROOT r = (f32[4]{{0}}, f32[8]{{0}}) tuple(a, b)
}}
"""


def header(number: int = 0, kind: str = "may-alias", donor: int | None = None, layout: str = "0") -> Module:
    """A module with `number` more arguments before the others."""
    inserted = "n = f32[4]{0} parameter(0)" if number else ""
    more = "f32[4]{0}, " * number
    text = HEADER.format(number, number + 1, kind=kind, layout=layout, more=more, inserted=inserted)
    return parse_module(text if donor is None else text.replace(f"donor={{ ({number + 1}", f"donor={{ ({donor}"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: header(1), []),
        (lambda: header(1, kind="must-alias"), ["input_output_alias"]),
        (lambda: header(1, donor=1), ["buffer_donor"]),
        (lambda: header(1, layout="0:T(256)"), ["entry_computation_layout"]),
        (lambda: header(layout="0:T(256)"), ["entry_computation_layout"]),
    ],
)
def test_the_header_is_compared_argument_by_argument(change: Callable[[], Module], expected: list[str]) -> None:
    found = diff(header(), change())
    assert [each.name for each in found.header] == expected


def test_a_changed_layout_in_the_header_names_the_argument() -> None:
    (found,) = diff(header(), header(1, layout="0:T(256)")).header
    assert str(found) == "entry_computation_layout argument 0 f32[4]{0} → argument 1 f32[4]{0:T(256)}"


def layers(count: int, *, paths: bool = True, width: int = 64, special: int | None = None) -> Module:
    """A program of some layers, one of which can have another width."""
    lines = [f"x.0 = bf16[8,{width}]{{1,0}} parameter(0)"]
    for n in range(count):
        wide = 128 if n == special else 96
        path, scope = (
            (f", metadata={{op_name=\"params['layers'][{n}]['{w}']\"}}" if paths else "" for w in ("w", "v")),
            f', metadata={{op_name="jit(f)/layers_{n}/mlp"}}' if paths else "",
        )
        into, out = path
        lines += [
            f"w.{n} = bf16[{width},{wide}]{{1,0}} parameter({2 * n + 1}){into}",
            f"v.{n} = bf16[{wide},{width}]{{1,0}} parameter({2 * n + 2}){out}",
            f"d.{n} = bf16[8,{wide}]{{1,0}} dot(x.{n}, w.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{scope}",
            f"t.{n} = bf16[8,{wide}]{{1,0}} tanh(d.{n}){scope}",
            f"u.{n} = bf16[8,{width}]{{1,0}} dot(t.{n}, v.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{scope}",
            f"x.{n + 1} = bf16[8,{width}]{{1,0}} add(x.{n}, u.{n}){scope}",
        ]
    lines.append(f"ROOT r = bf16[8,{width}]{{1,0}} negate(x.{count})")
    return parse_module("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


@pytest.mark.parametrize("paths", [True, False])
def test_a_layer_more_is_its_instructions(*, paths: bool) -> None:
    found = diff(layers(5, paths=paths), layers(6, paths=paths))
    assert len(found.added) == 6
    assert not found.changed
    assert not found.removed
    if paths:
        assert {instruction.name.partition(".")[2] for instruction in found.added} == {"5", "6"}


def test_another_width_of_one_layer_is_the_arrays_of_that_width() -> None:
    found = diff(layers(5), layers(5, special=2))
    assert {each.before.name for each in found.changed} == {"w.2", "v.2", "d.2", "t.2"}
    assert {change.kind for each in found.changed for change in each.changes} == {"shape"}
    assert not found.added
    assert not found.removed


def test_another_width_of_all_layers_pairs_all_instructions() -> None:
    found = diff(layers(5), layers(5, width=80))
    assert not found.added
    assert not found.removed
    assert {change.kind for each in found.changed for change in each.changes} == {"shape"}


@pytest.mark.parametrize("kind", ["layout", "attribute", "copy", "drop", "opcode"])
@pytest.mark.parametrize("name", NAMES)
def test_one_edit_is_one_row(name: str, kind: str) -> None:
    module, random = parse_module(dump_text(FIXTURES / name)), Random(f"{name} {kind}")
    draft = Draft(module)
    if draft.edit(random, (kind,)):
        assert len(rows(diff(module, parse_module(draft.text(draft.names(random)))))) == 1


def test_of_numbered_arguments_the_order_tells() -> None:
    """Arguments of a list, whose op_names are numbers: one more between others of its shape."""

    def doubled(*sizes: int) -> Module:
        lines = [
            f'p.{n} = f32[{size}]{{0}} parameter({n}), metadata={{op_name="xs[{n}]"}}' for n, size in enumerate(sizes)
        ]
        lines += [f"d.{n} = f32[{size}]{{0}} add(p.{n}, p.{n})" for n, size in enumerate(sizes)]
        shapes, names = (
            ", ".join(each) for each in ([f"f32[{s}]{{0}}" for s in sizes], [f"d.{n}" for n in range(len(sizes))])
        )
        return parse_module(
            "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\nROOT t = ({shapes}) tuple({names})\n}}\n"
        )

    found = diff(doubled(4, 5, 4), doubled(4, 4, 5, 4))
    assert len(found.added) == 2
    assert not [change for each in found.changed for change in each.changes if change.kind != "metadata"]
