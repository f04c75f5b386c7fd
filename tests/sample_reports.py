"""One report of every kind, with the numbers of the design, for the tests of the renderers."""

from __future__ import annotations

from hlo_cli.render.formats.screen import render_screen
from hlo_cli.render.style import Style
from hlo_cli.report.figure import Anatomy, Break, Explanation, Figure, Segment, fixed
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Amount, Branch, Cell, Column, Fact, Facts, Share, Table, Tree
from hlo_cli.report.text import Passage, Run

KIB = 1024

SHAPE_COLUMNS = (
    Column("count", "n", "count", total="sum"),
    Column("logical_bytes", "data", "bytes", total="sum", from_width=120),
    Column("padded_bytes", "padded", "bytes", total="sum"),
    Column("padding", "pad", "percent", total=Share("logical_bytes", "padded_bytes", rest=True), role="waste"),
    Column("saving_bytes", "saves", "bytes", total="sum", role="saving"),
    Column("shape", "shape", "shape"),
    Column("example", "example", "name"),
    Column("source", "source", "source", rank=2, from_width=120),
)


def shape_row(count: int, logical: int, padded: int, saving: int, shape: str, example: str) -> tuple[Cell, ...]:
    """A row of SHAPE_COLUMNS; `padded` and `saving` are given in KiB."""
    return (
        count,
        logical,
        padded * KIB,
        1 - logical / padded / KIB,
        saving * KIB,
        shape,
        example,
        "/home/me/model.py:303",
    )


SHAPE_ROWS = (
    shape_row(1, 90112, 2816, 2464, "f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}", "fusion.2"),
    shape_row(1, 82688, 2584, 2312, "f32[4,34,38,2]{0,3,2,1:T(2,128)S(1)}", "fusion.5"),
    shape_row(1, 66528, 756, 0, "f32[4,6,7,9,11]{4,0,3,2,1:T(4,128)}", "fusion"),
    shape_row(1, 20672, 646, 510, "bf16[4,4,2,17,19]{0,2,1,4,3:T(2,128)(2,1)S(1)}", "copy.10"),
    shape_row(1, 30240, 420, 0, "f32[4,6,7,9,5]{3,0,4,2,1:T(4,128)}", "x3.1"),
    *(shape_row(1, 14000, 110, 0, f"f32[7,{at}]{{1,0:T(8,128)}}", f"x.{at}") for at in range(22)),
    shape_row(2, 35000, 162, 410, "f32[2]{0:T(128)}", "y"),
)

LAYOUT = Report(
    "layout",
    "94% of 9.6 MiB is padding; better dimension orders would save 5.6 MiB",
    numbers={"values": 29, "shapes": 28, "padded_bytes": 10039296},
    parts=(
        Table("shapes", SHAPE_COLUMNS, SHAPE_ROWS, noun="shapes", sorted_by="padded_bytes"),
        Passage(
            "advice", ((Run("fusion.2", "name"), " in order {3,2,1,4,0} takes 352 KiB: 32 becomes minor, not 4."),)
        ),
    ),
    next=("hlo layout v5e_conv_misc/ --by source", "hlo layout v5e_conv_misc/:fusion.2 --draw"),
    input={"path": "v5e_conv_misc/"},
)

INSTRUCTION = Report(
    "parse",
    "One kernel: 3 operands, 8 instructions, 16 KiB written to VMEM",
    parts=(
        Anatomy(
            "instruction",
            (
                Segment("convolution_add_fusion.3", 0), Segment(" = "), Segment("f32", 1), Segment("["),
                Segment("32,128", 2), Segment("]{"), Segment("1,0", 3), Segment(":"), Segment("T(8,128)", 4),
                Segment("S(1)", 5), Segment("} "), Segment("fusion", 6, Break.SHOULD), Segment("("),
                Segment("copy-done", 7), Segment(", "), Segment("params_0__0_.1", 8, Break.MAY), Segment(", "),
                Segment("params_0__1_.1", 9, Break.MAY), Segment("), "), Segment("kind=kOutput", 10, Break.MAY),
            ),
            (
                Explanation(5, "space", "S(1)", "VMEM, the TPU's on-chip memory"),
                Explanation(7, "operand", "copy-done", "f32[32,64]{1,0:T(8,128)S(1)}", (16 * KIB, "VMEM")),
                Explanation(8, "operand", "params_0__0_.1", "f32[64,128]{1,0:T(8,128)}", (32 * KIB, "HBM")),
                Explanation(10, "kind", "kOutput", "a convolution and the work on its result"),
                Explanation(None, "from", "jit(step)/jvp()/dot_general", "gen_corpus.py:62"),
            ),
            (Column("bytes", "", "bytes"), Column("space", "")),
        ),
    ),
)  # fmt: skip

SUMMARY = Report(
    "parse",
    "jit_step for TPU, scheduled: 3,652 instructions in 266 computations",
    parts=(
        Facts(
            "module",
            (
                Fact("stage", (), "after_optimizations (newest of 2 in v5e_xfmr_tp4/)"),
                Fact("arguments", (Amount("count", 63), Amount("bytes", 5872025, "bytes"))),
                Fact("results", (Amount("count", 62), Amount("bytes", 5872025, "bytes")), "61 overwrite an argument"),
                Fact(
                    "opcodes", (Amount("count", 46),), "parameter 822, convert 468, broadcast 366, multiply 338, add 9"
                ),
            ),
        ),
        Table(
            "largest",
            (Column("bytes", "", "bytes"), Column("value", "largest values", "name"), Column("line", "line", "line")),
            (
                (1024 * KIB, "fusion.421{0}", 126),
                (512 * KIB, "gather_fusion", 119),
                (512 * KIB, "all-reduce", 119),
                *((64, f"add.{at}", at) for at in range(392)),
            ),
            noun="values",
            limit=3,
        ),
    ),
    next=("hlo memspace v5e_xfmr_tp4/",),
)

CALLS = Report(
    "parse",
    "main.28 runs 4 loops",
    parts=(
        Tree(
            "calls",
            (
                Column("computation", "computation", "name"),
                Column("carried_bytes", "carries", "bytes", inline=True),
                Column("source", "source", "source"),
            ),
            (
                Branch(
                    ("main.28", "", ""),
                    (
                        Branch(("while.10", 1975808, "gen_corpus.py:303"), (Branch(("body.1", 9, "")),)),
                        Branch(("while.11", 2371584, "gen_corpus.py:303")),
                        Branch(("while.8", None, UNKNOWN)),
                    ),
                ),
            ),
            noun="computations",
        ),
    ),
)

DRAWING = Report(
    "layout",
    "24 slots for 15 elements; · is padding",
    parts=(Figure("tiles", fixed(" y   ┌─────────┐", ("   0 │", Run("   8  ·9", "even"), " │")), data={"slots": 24}),),
)

REPORTS = (LAYOUT, INSTRUCTION, SUMMARY, CALLS, DRAWING)


def screen(report: Report, style: Style = Style()) -> str:  # noqa: B008
    """What a person sees of a report."""
    return "".join(render_screen(report, style))
