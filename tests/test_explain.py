"""`hlo parse --explain`: the worked screens, that every word is there, and that any instruction can be explained."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from hlo_cli import cli
from hlo_cli.commands.parse.explain import (
    attribute_label,
    describe_attribute,
    describe_opcode,
    explain_instruction,
    explain_text,
)
from hlo_cli.ir.operations import OPCODE_ARITY, OPERATIONS
from hlo_cli.library import load
from hlo_cli.render.registry import renderer
from hlo_cli.render.style import Style
from hlo_cli.render.width import cell_width
from hlo_cli.report.figure import Anatomy
from hlo_cli.report.report import Report
from hlo_cli.source import HloError
from hlo_cli.syntax.attribute_table import ROWS, attributes_of
from hlo_cli.syntax.text.parser import parse_module
from share import examples
from strategies import FIXTURES, Model, dumps, models, name_of

DUMPS = ("tpu/v5e_conv", "tpu/v5e_branches", "gpu/h100_collectives", "gpu/a100_conv", "cpu/sorting", "cpu/dynamic")


def screen(report: Report, width: int = 80, *, ascii_only: bool = False) -> str:
    return "".join(renderer("table", person=True)(report, Style(width=width, ascii=ascii_only)))


def anatomy(report: Report) -> Anatomy:
    found = report.parts[0]
    assert isinstance(found, Anatomy)
    return found


def test_the_worked_screen_of_a_typed_instruction() -> None:
    text = "add.936 = bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)} add(exponential.183, broadcast.3115)"
    assert (
        screen(explain_text(text))
        == """\
Adds two arrays: 167,772,160 bf16 elements, 320 MiB, no padding

add.936 = bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}
───┬───   ─┬── ──────┬───────  ───┬─── ───┬─── ──┬──
   a       b         c            d       e      f
add(exponential.183, broadcast.3115)
─┬─ ───────┬───────  ──────┬───────
 g         h               i

a name     add.936          instruction name; the leading % is optional
b type     bf16             2 bytes per element
c sizes    8 1 1280 16384   of dimensions 0, 1, 2, 3; true rank 3 (without
                            dimensions of size 1)
d order    3 2 0 1          minor to major: dimension 3 is minor, dimension 1 is
                            major; in physical order [1, 8, 1280, 16384]
e tile     T(8,128)         tiles of 8 (dimension 2) × 128 (dimension 3): 160 ×
                            128 tiles
f tile     (2,1)            within each tile, pairs of rows are interleaved: two
                            bf16 per 32-bit word
  space    not specified    S(0), main memory; HBM on a TPU
g opcode   add              elementwise; operands have the shape of the result
h operand  exponential.183  shape not in the text
i operand  broadcast.3115   shape not in the text
"""
    )


def test_a_fusion_of_a_dump() -> None:
    module = load(FIXTURES / "tpu/v5e_conv")
    report = explain_instruction(module, module.instruction("fusion.3"))
    assert report.answer == "Fusion with 2 operands and 11 instructions; writes 63.5 MiB to VMEM"
    rows = {(row.label, row.value): row for row in anatomy(report).explanations}
    assert rows["operand", "fusion.16"].details == (113 * 113 * 24 * 256 * 2, "HBM")
    assert rows["operand", "copy-done"].details == (55296, "VMEM")
    assert rows["kind", "kOutput"].meaning == "matmul or convolution with fused epilogue"
    assert rows["space", "S(1)"].meaning == "VMEM, on-chip vector memory"
    text = screen(report)
    assert "jit(classify)/block/conv_general_dilated" in text
    assert "models.py:26" in text
    assert "used by" in text
    assert report.numbers["users"] == ("fusion.17",)


def test_what_is_inside_a_kernel_is_not_in_memory() -> None:
    module = load(FIXTURES / "tpu/v5e_branches")
    report = explain_instruction(module, module.instruction("add.8"))
    assert report.answer == "Adds two arrays: 561 f32 elements, not stored in memory"
    assert all(row.details[1:] != ("HBM",) for row in anatomy(report).explanations if row.details)


def test_operands_typed_with_their_shapes_are_measured() -> None:
    report = explain_text(
        "f32[2,3]{1,0} dot(f32[2,5]{1,0} a, f32[5,3]{1,0} b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    operands = [row for row in anatomy(report).explanations if row.label == "operand"]
    assert [row.details[0] for row in operands] == [40, 60]
    assert "lhs dimensions that are summed over" in screen(report, 100)


def test_of_many_operands_the_first_are_quoted_and_all_are_counted() -> None:
    names = ", ".join(f"f32[4] x{i}" for i in range(30))
    report = explain_text(f"f32[120] concatenate({names}), dimensions={{0}}")
    assert ", … 22 more), dimensions={0}" in anatomy(report).text
    table = next(table for table in report.tables if table.name == "operands")
    assert len(table.rows) == 30
    assert sum(row[3] for row in table.rows if isinstance(row[3], int)) == 480


def test_long_values_are_shortened_on_the_screen_alone() -> None:
    value = '"' + "abc" * 100 + '"'
    report = explain_text(f"f32[2] custom-call(), custom_call_target={value}")
    assert value not in anatomy(report).text
    assert report.numbers["attributes"] == {"custom_call_target": value}


def test_a_name_that_nobody_wrote_is_not_quoted() -> None:
    assert anatomy(explain_text("f32[2] negate(x)")).text == "f32[2]{0} negate(x)"
    assert anatomy(explain_text("%y = f32[2] negate(%x)")).text == "y = f32[2]{0} negate(x)"


def test_a_loop_says_how_often_it_runs() -> None:
    module = parse_module("""HloModule m
c { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
    ROOT r = pred[] compare(i, n), direction=LT }
b { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(2)
    j = s32[] add(i, n) ROOT r = (s32[]) tuple(j) }
ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z) ROOT w = (s32[]) while(t), condition=c, body=b }""")
    assert explain_instruction(module, module.instruction("w")).answer == "Loop with trip count 5: 1 value, 4 B"


@pytest.mark.parametrize("text", ["f32[2] negate(", "f32[2]", "x = ", "", "f32[2] negate(x) y"])
def test_what_is_no_instruction_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(HloError) as raised:
        explain_text(text)
    assert raised.value.diagnostic.span is not None


def test_a_layout_that_does_not_fit_is_noted() -> None:
    report = explain_text("f32[3,5]{1,1} negate(x)")
    assert "duplicate layout dimension 1" in report.notes[0].message
    assert screen(report)


def test_there_are_words_for_every_opcode() -> None:
    for operation in OPERATIONS.values():
        assert operation.does[0].isupper()
        assert operation.about
        assert not operation.does.endswith(".")
        assert not operation.about.endswith(".")
        assert len(operation.does) <= 45
    assert describe_opcode("reduce-scatter-start").does == "Starts an async reduce-scatter"
    assert describe_opcode("slice-done").does == "Waits for an async slice"
    assert describe_opcode("frob").does == "Unknown opcode"


def test_descriptions_are_short_and_plain() -> None:
    """No private words, no British spelling, and nothing that a screen of 80 columns would wrap twice."""
    private = r"\b(cuts?|joins? two|holds nothing|nobody|none|lies?|stands?|meanwhile|slots?|what|spelling|neighbour|says?|told|asks?|wants?)\b"
    texts = [text for operation in OPERATIONS.values() for text in (operation.does, operation.about)]
    texts += [text for row in ROWS for text in (row.meaning, row.label, *row.words.values())]
    assert [text for text in texts if re.search(private, text, re.IGNORECASE)] == []
    assert [text for text in texts if len(text) > 95] == []


def test_there_are_words_for_every_attribute() -> None:
    for opcode in OPCODE_ARITY:
        for name in attributes_of(opcode):
            assert describe_attribute(opcode, name, "{0}") or name == "metadata", (opcode, name)
            assert attribute_label(name)


@pytest.mark.parametrize(
    ("opcode", "name", "value", "meaning"),
    [
        ("all-reduce", "replica_groups", "{{0,1},{2,3}}", "2 groups of 2 devices"),
        ("all-reduce", "replica_groups", "[2,4]<=[8]", "2 groups of 4 devices"),
        ("all-reduce", "replica_groups", "{}", "one group of all devices"),
        ("all-reduce", "replica_groups", "{{0},{1,2}}", "groups of participating devices"),
        ("compare", "direction", "LT", "less"),
        ("reduce", "dimensions", "{1}", "dimensions that are reduced"),
        ("dot", "algorithm", "dot_bf16_bf16_f32", "dot algorithm: operand, accumulator, and result types"),
        ("rng-bit-generator", "algorithm", "rng_philox", "random bit algorithm"),
        (
            "convolution",
            "window",
            "{size=3x3 stride=2x2 pad=1_1x0_0}",
            "3 × 3 elements, stride 2 × 2, low_high padding 1_1 × 0_0",
        ),
        ("fusion", "backend_config", '{"a":"0","b":[],"c":{"d":1}}', "backend configuration: a 0, c"),
        ("add", "frobnication", "7", ""),
    ],
)
def test_attributes_are_put_into_words(opcode: str, name: str, value: str, meaning: str) -> None:
    assert describe_attribute(opcode, name, value) == meaning


@pytest.mark.parametrize("name", DUMPS)
def test_every_instruction_of_a_dump_can_be_explained(name: str) -> None:
    module = load(FIXTURES / name)
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for instruction in module.instructions:
        key = (instruction.opcode, tuple(attribute.name for attribute in instruction.attributes))
        if key in seen:
            continue
        seen.add(key)
        report = explain_instruction(module, instruction)
        assert report.numbers["padded_bytes"] == instruction.shape.padded_bytes
        for width in (60, 80):
            assert all(cell_width(line) <= width for line in screen(report, width).splitlines())
        assert screen(report, ascii_only=True).isascii()
        parts = [row.part for row in anatomy(report).explanations if row.part is not None]
        assert parts == list(range(len(parts)))
        quoted = [segment.part for segment in anatomy(report).segments if segment.part is not None]
        assert quoted == parts


@settings(max_examples=examples(25))
@given(models())
def test_any_instruction_can_be_explained(model: Model) -> None:
    module = parse_module(model.canonical())
    for instruction in list(module.instructions)[:20]:
        report = explain_instruction(module, instruction)
        assert all(cell_width(line) <= 80 for line in screen(report).splitlines())


def test_the_dumps_are_there() -> None:
    assert {name_of(path).rpartition("/")[0] for path in dumps()} >= set(DUMPS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%f = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop, calls=%fc", "fc"),
        ("r = f32[] reduce(f32[8]{0} p, f32[] c), dimensions={0}, to_apply=add", "add"),
        ("w = (s32[], f32[2]) while((s32[], f32[2]) t), condition=cond.1, body=body.1", "body.1"),
        ("c = f32[] conditional(pred[] p, f32[] a, f32[] b), true_computation=yes, false_computation=no", "yes"),
    ],
)
def test_a_pasted_instruction_may_name_computations(text: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["parse", "--explain", text], standalone=False) == 0
    printed = capsys.readouterr().out
    assert f"\t{named}\t" in printed
    assert "?" not in printed


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("Sharding", "Sharding annotation: 8 f32 elements, 32 B"),
        ("SPMDFullToShardShape", "Enters per-shard view (manual sharding): 8 f32 elements, 32 B"),
        ("SPMDShardToFullShape", "Leaves per-shard view (manual sharding): 8 f32 elements, 32 B"),
        ("my_op", "Calls external code: 8 f32 elements, 32 B"),
    ],
)
def test_annotations_are_not_external_code(target: str, answer: str) -> None:
    text = f'c = f32[8] custom-call(f32[8] p), custom_call_target="{target}", sharding={{manual}}'
    report = explain_text(text)
    assert report.answer.startswith(answer)
