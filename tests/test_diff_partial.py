"""`hlo diff` of truncated dumps and of dumps of different stages: the first line says so, and no cause is made up."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.matching.module_diff import diff
from hlo_cli.commands.diff.conditions import View, parse_conditions
from hlo_cli.commands.diff.inputs import report_of_inputs
from hlo_cli.commands.options.io_options import InputOptions
from hlo_cli.source import HloError

DUMPS = sorted((Path(__file__).parents[1] / "fixtures/tpu").glob("*/*after_optimizations.txt"))[:4]

TEXT = """\
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0}, f32[8]{0})->f32[8]{0}}

%fused (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %s = f32[8]{0} sine(%a)
  ROOT %n = f32[8]{0} negate(%s)
}

ENTRY %main (p: f32[8], q: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="p"}
  %q = f32[8]{0} parameter(1), metadata={op_name="q"}
  %r = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused
  ROOT %t = f32[8]{0} add(%r, %q)
}
"""


STATEMENTS = View("statements", (), with_schedule=False)


def _answer(*paths: str, view: View = STATEMENTS) -> str:
    return report_of_inputs(paths, InputOptions(), view)[0].answer


@pytest.mark.parametrize("line", range(5, 14))
def test_a_truncated_text_has_no_additions_or_removals(line: int) -> None:
    """Cut in every line: what is not in the text is neither removed nor added, and what is in it is equal."""
    part = "\n".join(TEXT.split("\n")[:line])[:-1]
    found = diff(parse_module(TEXT), parse_module(part))
    assert found.after.is_truncated
    assert not found.removed
    assert not found.added
    back = diff(parse_module(part), parse_module(TEXT))
    assert back.before.is_truncated
    assert not back.added
    assert not back.removed


def test_an_edit_before_the_end_of_a_truncated_text_is_found() -> None:
    part = TEXT[: TEXT.index("ENTRY")].replace("sine", "cosine")
    found = diff(parse_module(TEXT), parse_module(part))
    assert [str(change) for each in found.changed for change in each.changes] == ["opcode sine → cosine"]


def test_whole_texts_are_not_truncated() -> None:
    """Parts of modules that people paste have no entry, and are whole."""
    for text in (TEXT, TEXT[TEXT.index("%fused") : TEXT.index("ENTRY")], "r = f32[2] add(f32[2] a, f32[2] b)"):
        assert not parse_module(text).is_truncated


@pytest.mark.parametrize("seed", range(4))
def test_truncated_dumps_of_compilers_have_no_differences(seed: int) -> None:
    text, random = DUMPS[seed % len(DUMPS)].read_text(), Random(seed)
    for _ in range(3):
        part = text[: random.randrange(len(text) // 2, len(text) - 10)]
        found = diff(parse_module(text), parse_module(part))
        assert not found.added
        assert not found.removed
        assert len(found.changed) <= 1, [(each.after, list(map(str, each.changes))) for each in found.changed]


VIEWS = (
    STATEMENTS,
    View("rows", (), with_schedule=False),
    View("statements", (), with_schedule=False, by="source"),
    View("statements", (), with_schedule=False, conditions=parse_conditions("memory>2%")),
)


@pytest.mark.parametrize("view", VIEWS)
def test_the_first_line_names_the_truncated_side(tmp_path: Path, view: View) -> None:
    (tmp_path / "whole.txt").write_text(TEXT)
    (tmp_path / "part.txt").write_text(TEXT[: TEXT.index("ENTRY")].replace("sine", "cosine"))
    whole, part = str(tmp_path / "whole.txt"), str(tmp_path / "part.txt")
    assert _answer(whole, part, view=view).startswith("NEW is truncated; ")
    assert _answer(part, whole, view=view).startswith("OLD is truncated; ")
    assert _answer(part, part, view=view).startswith("OLD and NEW are truncated; ")


def _dump(folder: Path, *stages: str) -> str:
    folder.mkdir()
    for stage in stages:
        text = TEXT if stage == "after_optimizations" else TEXT.replace("sine", "cosine")
        (folder / f"module_0001.jit_f.{stage}.txt").write_text(text)
    return str(folder)


def test_the_latest_stage_of_both_directories_is_compared(tmp_path: Path) -> None:
    old = _dump(tmp_path / "old", "before_optimizations")
    new = _dump(tmp_path / "new", "before_optimizations", "after_optimizations")
    assert _answer(old, new) == "No differences (7 instructions)"
    assert _answer(new, old) == "No differences (7 instructions)"


def test_the_first_line_says_that_the_stages_differ(tmp_path: Path) -> None:
    old, new = _dump(tmp_path / "old", "before_optimizations"), _dump(tmp_path / "new", "after_optimizations")
    words = "The stages differ: OLD is before_optimizations, NEW is after_optimizations"
    assert _answer(old, new) == words
    files = [str(next(Path(folder).iterdir())) for folder in (old, new)]
    assert not _answer(*files).startswith("The stages")  # the user named both


@pytest.mark.parametrize(
    ("limit", "amount"),
    [("4kB", 4000), ("4KB", 4000), ("4kib", 4096), ("1.5MiB", 3 << 19), ("2G", 2 << 30), ("7", 7), ("7B", 7)],
)
def test_limits_have_the_units_of_sizes(limit: str, amount: int) -> None:
    (condition,) = parse_conditions(f"memory.hbm>{limit}")
    assert condition.amount == amount


@pytest.mark.parametrize("word", ["memory>2x", "kernels>3kB", "flops>1GiB"])
def test_other_units_are_errors(word: str) -> None:
    with pytest.raises(HloError):
        parse_conditions(word)
