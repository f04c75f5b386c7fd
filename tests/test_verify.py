"""`--verify`: rewritten modules compute the same; a wrong rewrite is found, and a module that cannot run is not one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_cli import Module, cli, parse_module

FIXTURES = Path(__file__).parent.parent / "fixtures"
SOFTMAX = str(FIXTURES / "cpu/softmax")
CASES = (
    ("fuse", "--unfuse", "all"),
    ("fuse", "--unfuse", "all", "--run-pass"),
    ("schedule", "--reorder", "memory"),
    ("schedule", "--reorder", "bfs"),
    ("schedule", "--desugar"),
)
OMITTED = """HloModule m, is_scheduled=true
ENTRY e {
  a = f32[4] parameter(0)
  c = f32[4] constant({...})
  ROOT r = f32[4] add(a, c)
}
"""
UNKNOWN = OMITTED.replace("constant({...})", 'custom-call(a), custom_call_target="my_op"')


def hlo(*words: str) -> int:
    return cli.main([*words], standalone=False)


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_rewrites_compute_the_same(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = words
    assert hlo(command, SOFTMAX, *options, "--verify", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["answer"]["verified"] in ("identical", "rounding")
    assert hlo(command, SOFTMAX, *options, "--verify", "--format", "md") == 0
    assert "verified: results" in capsys.readouterr().out


@pytest.mark.parametrize("words", CASES[:3], ids=" ".join)
def test_a_wrong_rewrite_is_found(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "HloModule m, is_scheduled=true\nENTRY e {\n a = f32[4] parameter(0)\n ROOT r = f32[4] negate(a)\n}\n"
    (tmp_path / "m.txt").write_text(text)
    wrong = parse_module(text.replace("negate", "abs"))

    def changed(result: object) -> object:
        return replace(result, module=wrong)  # type: ignore[type-var]

    import hlo_cli.commands.fuse.what_if as fusing
    import hlo_cli.transform.reorder as ordering

    what_if, reordered = fusing.what_if, ordering.reorder_with_peaks
    monkeypatch.setattr(fusing, "what_if", lambda *given: changed(what_if(*given)))
    monkeypatch.setattr(ordering, "reorder_with_peaks", lambda *given, **more: changed(reordered(*given, **more)))
    command, *options = words
    out = str(tmp_path / "out.hlo")
    assert hlo(command, str(tmp_path / "m.txt"), *options, "--verify") == 1
    assert "not the same: 1 of 1 result differs, first at r" in capsys.readouterr().err
    assert hlo(command, str(tmp_path / "m.txt"), *options, "--verify", "-o", out) == 1
    assert "first at r" in capsys.readouterr().err
    assert hlo(command, str(tmp_path / "m.txt"), *options) == 0


@pytest.mark.parametrize("words", CASES[:3], ids=" ".join)
def test_what_cannot_run_is_a_note(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.txt").write_text(OMITTED)
    command, *options = words
    assert hlo(command, str(tmp_path / "m.txt"), *options, "--verify", "--format", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"]["verified"] is None
    assert any("not verified: cannot evaluate c" in str(note) for note in answer["notes"])


def test_what_is_assumed_of_unknown_functions_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.txt").write_text(UNKNOWN)
    assert hlo("fuse", str(tmp_path / "m.txt"), "--unfuse", "all", "--verify", "-o", str(tmp_path / "new.txt")) == 0
    assert "verified: results are identical, with made-up results of my_op" in capsys.readouterr().err


def _names(module: Module) -> list[str]:
    return [each.name for each in module.entry.instructions if each.parameter_number is None]


def test_parts_compute_what_they_do_in_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from hlo_cli import load

    for name in _names(load(SOFTMAX))[:6]:
        assert hlo("parse", SOFTMAX, "--slice", name, "--verify") == 0
        assert "verified: results are identical" in capsys.readouterr().err


def test_parts_of_loops_run_with_the_values_of_the_first_iteration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """HloModule m
body {
  s = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  more = s32[] add(n, one)
  y = f32[4] sine(x)
  ROOT t = (s32[], f32[4]) tuple(more, y)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] constant(3)
  ROOT c = pred[] compare(n, end), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  a = f32[4] parameter(0)
  t = (s32[], f32[4]) tuple(zero, a)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""
    (tmp_path / "m.txt").write_text(text)
    assert hlo("parse", str(tmp_path / "m.txt"), "--slice", "y", "--verify") == 0
    assert "verified: results are identical" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("fuse",), ("schedule",), ("parse", "--tree")], ids=" ".join)
def test_it_requires_a_rewrite(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command, *options = words
    assert hlo(command, SOFTMAX, *options, "--verify") == 2
    assert "--verify requires" in capsys.readouterr().err
