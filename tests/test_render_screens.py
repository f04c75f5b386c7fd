"""The worked screens of the design, as a person sees them."""

from __future__ import annotations

import re
from itertools import pairwise

from hlo_cli.render.draw.prose import LOOKS
from hlo_cli.render.draw.table import lines_of_table
from hlo_cli.render.formats.screen import render_screen
from hlo_cli.render.style import Style
from hlo_cli.report.report import Report
from hlo_cli.report.table import Branch, Column, Table, Tree
from hlo_cli.report.text import plain_text
from sample_reports import CALLS, DRAWING, INSTRUCTION, LAYOUT, REPORTS, SHAPE_COLUMNS, SUMMARY, screen


def test_the_worked_screen_of_layout() -> None:
    assert (
        screen(LAYOUT, Style(top=5))
        == """\
94% of 9.6 MiB is padding; better dimension orders would save 5.6 MiB

    padded  pad  saves
 n     KiB    %    KiB  shape                                           example
──  ──────  ───  ─────  ──────────────────────────────────────────────  ────────
 1   2,816   97  2,464  f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}        fusion.2
 1   2,584   97  2,312  f32[4,34,38,2]{0,3,2,1:T(2,128)S(1)}            fusion.5
 1     756   91      0  f32[4,6,7,9,11]{4,0,3,2,1:T(4,128)}             fusion
 1     646   97    510  bf16[4,4,2,17,19]{0,2,1,4,3:T(2,128)(2,1)S(1)}  copy.10
 1     420   93      0  f32[4,6,7,9,5]{3,0,4,2,1:T(4,128)}              x3.1
24   2,582   87    410  23 more shapes
29   9,804   94  5,696  total

fusion.2 in order {3,2,1,4,0} takes 352 KiB: 32 becomes minor, not 4.
next: hlo layout v5e_conv_misc/ --by source
      hlo layout v5e_conv_misc/:fusion.2 --draw
"""
    )


def test_the_worked_screen_of_parse() -> None:
    assert (
        screen(SUMMARY)
        == """\
jit_step for TPU, scheduled: 3,652 instructions in 266 computations

stage      after_optimizations (newest of 2 in v5e_xfmr_tp4/)
arguments  63   5.6 MiB
results    62   5.6 MiB   61 overwrite an argument
opcodes    46   parameter 822, convert 468, broadcast 366, multiply 338, add 9

  KiB  largest values  line
─────  ──────────────  ────
1,024  fusion.421{0}    126
  512  gather_fusion    119
  512  all-reduce       119
Showing 3 of 395 values; use --top 0 to show all
next: hlo memspace v5e_xfmr_tp4/
"""
    )


def test_the_worked_screen_of_an_instruction() -> None:
    assert (
        screen(INSTRUCTION)
        == """\
One kernel: 3 operands, 8 instructions, 16 KiB written to VMEM

convolution_add_fusion.3 = f32[32,128]{1,0:T(8,128)S(1)}
───────────┬────────────   ─┬─ ──┬───  ─┬─ ───┬─── ─┬──
           a                b    c      d     e     f
fusion(copy-done, params_0__0_.1, params_0__1_.1), kind=kOutput
──┬─── ────┬────  ──────┬───────  ──────┬───────   ─────┬──────
  g        h            i               j               k

f space    S(1)            VMEM, the TPU's on-chip memory
h operand  copy-done       f32[32,64]{1,0:T(8,128)S(1)}  16 KiB  VMEM
i operand  params_0__0_.1  f32[64,128]{1,0:T(8,128)}     32 KiB  HBM
k kind     kOutput         a convolution and the work on its result
  from     jit(step)/jvp()/dot_general  gen_corpus.py:62
"""
    )


def test_a_tree_in_ascii() -> None:
    assert (
        screen(CALLS, Style(ascii=True, top=4))
        == """\
main.28 runs 4 loops

computation   carries KiB  source
------------  -----------  -----------------
main.28
|- while.10       1,929.5  gen_corpus.py:303
|  `- 1 more
|- while.11       2,316.0  gen_corpus.py:303
`- while.8                 ?
Showing 4 of 5 computations; use --top 0 to show all
"""
    )


def test_deep_trees_lose_their_first_levels_together() -> None:
    branch = Branch(("step.40",))
    for depth in range(39, -1, -1):
        branch = Branch((f"step.{depth}",), (branch, Branch((f"side.{depth}",))))
    tree = Tree("deep", (Column("name", "step", "name"),), (branch,))
    rows = screen(Report("parse", "deep", parts=(tree,)), Style(top=0)).splitlines()[-81:]
    assert max(map(len, rows)) < 40
    cut = [int(row[1:4]) if row.startswith("…") else 0 for row in rows]
    for (row, lost), (below, lost_below) in pairwise(zip(rows, cut, strict=True)):
        if lost == lost_below and "step" in row and "step" in below:
            assert below.index("├" if "├" in below else "└") == row.index("step")
    assert sum(a != b for a, b in pairwise(cut)) < len(rows) / 3


def test_wide_screens_show_more_and_people_get_twenty_rows() -> None:
    lines = screen(LAYOUT, Style(width=120)).splitlines()
    assert "data" in lines[2]
    assert lines[5].endswith(" model.py:303")
    assert "/home/me/model.py:303" in screen(LAYOUT, Style(width=200))
    assert next(line for line in lines if "more shapes" in line).endswith("8 more shapes")
    assert "Showing 20 of 28 shapes; use --top 0 to show all" in lines


def test_all_rows_are_shown_when_asked_for() -> None:
    text = screen(LAYOUT, Style(top=0))
    assert "more" not in text
    assert "f32[2]{0:T(128)}" in text
    assert text.count("\n") == 38


def test_a_table_without_rows_is_not_drawn() -> None:
    empty = Report("fuse", "No fusion among 203 instructions", parts=(Table("fusions", SHAPE_COLUMNS, ()),))
    assert screen(empty) == "No fusion among 203 instructions\n"


def test_color_repeats_what_words_say() -> None:
    text = screen(LAYOUT, Style(color=True, top=5))
    assert text.startswith("\x1b[1m94% of 9.6 MiB is padding")
    assert "\x1b[36mfusion.2\x1b[0m" in text
    assert "\x1b[33m97\x1b[0m" in text
    assert "\x1b[32m2,464\x1b[0m" in text
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == screen(LAYOUT, Style(top=5))


def test_colors_are_the_terminals_own_and_never_blue_or_a_background() -> None:
    assert set(LOOKS.values()) <= {"bold", "dim", "cyan", "yellow", "red", "green", "magenta"}
    codes = {code for report in REPORTS for code in re.findall(r"\x1b\[([0-9;]*)m", screen(report, Style(color=True)))}
    assert codes <= {"0", "1", "2", "31", "32", "33", "35", "36"}


def test_figures_in_ascii_keep_their_columns() -> None:
    assert screen(DRAWING, Style(ascii=True)).splitlines()[1:] == ["", " y   +---------+", "   0 |   8  .9 |"]


def test_rows_that_differ_in_the_middle_of_a_name_look_different() -> None:
    columns = (Column("bytes", "size", "bytes"), Column("dump", "dump", "name"))
    paths = [f"d_transformer/module_{n:04d}.jit_multiply.cpu_after_optimizations.txt" for n in (8, 9, 62)]
    table = Table("modules", columns, tuple((64, path) for path in paths))
    lines = [plain_text(line) for line in lines_of_table(table, Style(width=30))][-3:]
    assert lines == [
        "  64  …0008.jit_multiply.cpu_…",
        "  64  …0009.jit_multiply.cpu_…",
        "  64  …0062.jit_multiply.cpu_…",
    ]


def test_a_screen_has_two_next_commands_at_most() -> None:
    report = Report("parse", "It is", next=("hlo a", "hlo b", "hlo c"))
    assert "".join(render_screen(report, Style())) == "It is\nnext: hlo a\n      hlo b\n"
