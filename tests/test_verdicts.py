"""`hlo run --against`: no verdict without having looked. Elements are judged one by one, and each computation runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple

import numpy as np
import pytest

from hlo_cli import HloError, Module, cli, compare_runs, load, parse_module
from hlo_cli.analysis.comparison import argument_sets, two_runs
from hlo_cli.analysis.comparison.argument_sets import compare_once
from hlo_cli.analysis.comparison.coverage import choices, missing_in
from hlo_cli.analysis.comparison.verdict import Rounding, rounding_of
from hlo_cli.analysis.evaluate.arguments import made_up_arguments, whole_arguments
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.evaluate.program import Noise, _disturbed
from hlo_cli.analysis.evaluate.run import Run, run
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import Value, arrays_of
from in_process import run as run_command
from planting import Planted, planted
from test_first_difference import NESTED
from test_parting_judge import COMPILED, compiled

FIXTURES = Path(__file__).parent.parent / "fixtures"
LIMITS = Limits(max_iterations=2_000, max_seconds=60, max_operations=1_000_000_000)
HALVES = """HloModule m
ENTRY main { x = f32[64] parameter(0)  y = f32[64] parameter(1)  k = f32[] constant(1e30)
  kb = f32[64] broadcast(k), dimensions={}  big = f32[64] multiply(x, kb)  small = f32[64] multiply(y, x)
  m = s32[64] iota(), iota_dimension=0  z = s32[] constant(32)  zb = s32[64] broadcast(z), dimensions={}
  left = pred[64] compare(m, zb), direction=LT  ROOT r = f32[64] select(left, big, small) }
"""
BRANCHES = """HloModule m
low { v = f32[4] parameter(0)  ROOT n = f32[4] negate(v) }
high { w = f32[4] parameter(0)  ROOT e = f32[4] exponential(w) }
ENTRY main { GIVEN  x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(p, x, x), true_computation=high, false_computation=low }
"""


def changed(text: str, old: str, new: str) -> tuple[Module, Module]:
    assert text.count(old) == 1
    return parse_module(text), parse_module(text.replace(old, new))


# --- elements are judged one by one ---


@pytest.mark.parametrize(("size", "opcode"), [("1e30", "add"), ("1e9", "subtract"), ("1e5", "maximum")])
def test_small_elements_beside_large_ones_are_compared(size: str, opcode: str) -> None:
    text = HALVES.replace("1e30", size)
    found = compare_runs(*changed(text, "small = f32[64] multiply", f"small = f32[64] {opcode}"))
    assert found.verdict == "different"
    assert found.first_difference is not None
    assert found.first_difference.instruction.name == "small"


def test_results_are_not_judged_by_their_largest_element() -> None:
    one, two = (
        parse_module(f"ENTRY e {{ ROOT c = f32[4] constant({{{each}}}) }}") for each in ("1e9, 1, 1, 1", "1e9, 2, 3, 4")
    )
    assert compare_runs(one, two).verdict == "different"


CANCELLING = """HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[64,64] parameter(0)  y = f32[64,8] parameter(1)  z = f32[] constant(0)
  FORM
"""
ONE = """xy = f32[64,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  o = f32[] constant(0.3333333333)  ob = f32[64,8] broadcast(o), dimensions={}  s = f32[64,8] multiply(xy, ob)
  d = f32[64,8] add(s, s)  t = f32[64,8] subtract(d, s)  ROOT r = f32[64,8] subtract(t, s) }"""
OTHER = """h = f32[64,32] slice(x), slice={[0:64],[0:32]}  g = f32[64,32] slice(x), slice={[0:64],[32:64]}
  yh = f32[32,8] slice(y), slice={[0:32],[0:8]}  yg = f32[32,8] slice(y), slice={[32:64],[0:8]}
  one = f32[64,8] dot(g, yg), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  two = f32[64,8] dot(h, yh), lhs_contracting_dims={1}, rhs_contracting_dims={0}  xy = f32[64,8] add(one, two)
  o = f32[] constant(0.333333343)  ob = f32[64,8] broadcast(o), dimensions={}  s = f32[64,8] multiply(xy, ob)
  p = f32[64,8] multiply(one, ob)  q = f32[64,8] multiply(two, ob)  n = f32[64,8] add(p, q)
  ROOT r = f32[64,8] subtract(s, n) }"""


def test_sums_that_cancel_are_the_same_program() -> None:
    """Nothing but rounding is left of each element; it is small in comparison with the terms."""
    one, other = (parse_module(CANCELLING.replace("FORM", each)) for each in (ONE, OTHER))
    assert compare_runs(one, other).is_same
    wrong = parse_module(CANCELLING.replace("FORM", OTHER.replace("n = f32[64,8] add(p", "n = f32[64,8] subtract(p")))
    assert compare_runs(one, wrong).verdict == "different"


def test_the_first_module_alone_may_explain_a_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with errors take most of the time of a comparison."""
    sampled: list[int] = []
    run_one = argument_sets.RunSetting.run_one

    def counted(setting: argument_sets.RunSetting, at: int, noise: Noise) -> Run:
        sampled.append(at)
        return run_one(setting, at, noise)

    monkeypatch.setattr(argument_sets.RunSetting, "run_one", counted)
    one, other = (parse_module(CANCELLING.replace("FORM", each)) for each in (ONE, OTHER))
    assert compare_once(one, other)[0][0].verdict in ("identical", "rounding")
    assert set(sampled) == {0}
    wrong = parse_module(CANCELLING.replace("FORM", OTHER.replace("n = f32[64,8] add(p", "n = f32[64,8] subtract(p")))
    assert compare_once(one, wrong)[0][0].verdict == "different"
    assert set(sampled) == {0, 1}


def test_errors_are_in_proportion() -> None:
    """From half a size to two sizes; integers, infinities, NaN, and numbers without bits to spare have none."""
    values = np.random.default_rng(0).normal(size=1000)
    for size in (2.0**-42, 2.0**-26):
        errors = np.abs(np.asarray(_disturbed(values, Noise(size))) / values - 1) / size
        assert 0.49 < errors.min() < errors.max() < 2.01
    kept = np.array([0.0, -0.0, 3.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310])
    np.testing.assert_array_equal(np.asarray(_disturbed(kept, Noise(2.0**-26))), kept)


# --- all that can run has run ---


@pytest.mark.parametrize(
    "given",
    [
        "p = pred[] parameter(0)",
        "i = s32[] parameter(0)  k = s32[] constant(1000)  p = pred[] compare(i, k), direction=NE",
        "f = f32[] parameter(0)  k = f32[] constant(50)  p = pred[] compare(f, k), direction=LT",
        """f = f32[8] parameter(0)  z = f32[] constant(0)  q = f32[8] multiply(f, f)
           s = f32[] reduce(q, z), dimensions={0}, to_apply=sum
           k = f32[] constant(1e6)  p = pred[] compare(s, k), direction=LT""",
    ],
)
def test_branches_that_seed_0_does_not_take_are_compared(given: str) -> None:
    total = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\nlow"
    text = BRANCHES.replace("GIVEN", given).replace("low", total, 1)
    old, new = changed(text, "negate(v)", "cosine(v)")
    same = compare_runs(old, old)
    assert (same.verdict, same.coverage.missing) == ("identical", ())
    found = compare_runs(old, new)
    assert found.verdict == "different"
    assert found.first_difference is not None
    assert found.first_difference.instruction.name == "n"


def test_loops_that_seed_0_does_not_enter_are_compared() -> None:
    text = """HloModule m
      c { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(70)  ROOT l = pred[] compare(i, k), direction=GT }
      b { s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[4] get-tuple-element(s), index=1
        one = s32[] constant(1)  j = s32[] subtract(i, one)  y = f32[4] sine(x)  ROOT t = (s32[], f32[4]) tuple(j, y) }
      ENTRY e { n = s32[] parameter(0)  x = f32[4] parameter(1)  t = (s32[], f32[4]) tuple(n, x)
        w = (s32[], f32[4]) while(t), condition=c, body=b  ROOT r = f32[4] get-tuple-element(w), index=1 }"""
    assert compare_runs(*changed(text, "sine(x)", "cosine(x)")).verdict == "different"


def test_rows_beyond_a_small_size_are_compared() -> None:
    """With seed 0, the dynamic dimension has three rows at most."""
    text = """ENTRY e { x = f32[8] parameter(0)  n = s32[] parameter(1)  m = s32[8] iota(), iota_dimension=0  k = s32[] constant(5)
      kb = s32[8] broadcast(k), dimensions={}  left = pred[8] compare(m, kb), direction=LT  s = f32[8] sine(x)  c = f32[8] tanh(x)
      y = f32[8] select(left, s, c)  ROOT r = f32[<=8] set-dimension-size(y, n), dimensions={0} }"""
    assert compare_runs(*changed(text, "tanh(x)", "cosine(x)")).verdict == "different"


DEAD = BRANCHES.replace("GIVEN", "q = pred[] parameter(0)  p = pred[] constant(true)")


def test_what_cannot_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.hlo").write_text(DEAD)
    (tmp_path / "b.hlo").write_text(DEAD.replace("negate", "cosine"))
    arguments = ["run", str(tmp_path / "a.hlo"), "--against", str(tmp_path / "b.hlo"), "--json"]
    assert cli.main(arguments, standalone=False) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["answer"]["verdict"], answer["answer"]["not_run"]) == ("uncovered", ["low", "low"])
    rows = answer["tables"]["not_run"]["rows"]
    assert [(row["side"], row["computation"], row["caller"]) for row in rows] == [
        ("first", "low", "conditional c"),
        ("second", "low", "conditional c"),
    ]
    assert cli.main([*arguments, "--allow-uncovered"], standalone=False) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["verdict"] == "identical"
    assert cli.main([*arguments[:-1], "--allow-uncovered", "--format", "screen"], standalone=False) == 0
    answer = " ".join(capsys.readouterr().out.split())
    assert answer.startswith("The same program as far as it was compared: 1 result identical, but low never ran (")


def test_the_answer_states_the_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.hlo").write_text(BRANCHES.replace("GIVEN", "p = pred[] parameter(0)"))
    arguments = ["run", str(tmp_path / "a.hlo"), "--against", str(tmp_path / "a.hlo"), "--format", "screen", "-q"]
    assert cli.main(arguments, standalone=False) == 0
    assert "6 of 6 computations ran" in capsys.readouterr().out.split("\n")[0]


def test_given_arguments_are_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A branch that they do not take is named."""
    (tmp_path / "a.hlo").write_text(BRANCHES.replace("GIVEN", "p = pred[] parameter(0)"))
    (tmp_path / "x.json").write_text("[true, [1, 2, 3, 4]]")
    path = str(tmp_path / "a.hlo")
    arguments = ["run", path, "--against", path, "--args", str(tmp_path / "x.json"), "--format", "screen"]
    assert cli.main(arguments, standalone=False) == 1
    assert "low never ran (4 of 6 computations ran, with the given arguments only)" in " ".join(
        capsys.readouterr().out.split()
    )


def test_numbers_take_the_place_of_nan() -> None:
    """Standard normal arguments have no logarithm half of the time; positive ones do."""
    text = "ENTRY e { p = f32[1] parameter(0)  n = f32[1] negate(p)  a = f32[1] abs(n)  m = f32[1] negate(a)  q = f32[1] add(m, p)  l = f32[1] sqrt(q)  ROOT r = f32[1] sine(l) }"
    old, new = changed(text, "sine(l)", "cosine(l)")
    assert np.isnan(
        np.asarray(run(parse_module(text.replace("q = f32[1] add(m, p)", "q = f32[1] add(m, m)"))).result)
    ).all()
    assert compare_runs(old, new).verdict == "different"
    hidden = text.replace("add(m, p)", "add(m, m)")
    one, two = changed(hidden, "sine(l)", "cosine(l)")
    assert compare_runs(one, two).verdict != "identical"


def test_numbers_take_the_place_of_infinities() -> None:
    text = """ENTRY e { p = f32[4] parameter(0)  k = f32[] constant(1e5)  kb = f32[4] broadcast(k), dimensions={}
      a = f32[4] abs(p)  m = f32[4] multiply(a, kb)  s = f32[4] sine(p)  b = f32[4] add(m, s)  ROOT r = f32[4] exponential(b) }"""
    old, new = changed(text, "sine(p)", "cosine(p)")
    assert np.isinf(np.asarray(run(old, floats="widen").result)).any()
    assert compare_runs(old, new).verdict == "different"


def test_no_term_vanishes_beside_gradients_of_large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although there is no time for sets that vary what has already run."""
    monkeypatch.setattr(argument_sets, "_MAX_EXECUTED", 0)
    layers = " ".join(
        f"d{at + 1} = f32[16,16] dot(d{at}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for at in range(24)
    )
    text = f"""ENTRY e {{ d0 = f32[16,16] parameter(0)  w = f32[16,16] parameter(1)  m = f32[16,16] parameter(2)
      c = f32[] constant(0.9)  b = f32[16,16] broadcast(c), dimensions={{}}  k = f32[16,16] multiply(m, b)
      {layers}  ROOT r = f32[16,16] add(k, d24) }}"""
    assert compare_runs(*changed(text, "0.9", "0.1")).verdict == "different"
    module = parse_module(text)
    assert compare_runs(module, module).verdict == "identical"


def test_nan_of_constants_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = parse_module("ENTRY e { p = f32[2] parameter(0)  ROOT c = f32[2] constant({nan, 1}) }")
    compared = compare_runs(module, module)
    assert (compared.verdict, compared.coverage.kept_nan) == ("identical", 1)
    (tmp_path / "a.hlo").write_text(module.to_string())
    assert cli.main(["run", str(tmp_path / "a.hlo"), "--against", str(tmp_path / "a.hlo")], standalone=False) == 0
    assert "numbers were compared in 1 of 2 elements of the results" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("bound", "wrong", "right"), [("3", "different", "identical"), ("-2000000000", "uncovered", "uncovered")]
)
def test_nan_that_arguments_choose_is_not_compared(bound: str, wrong: str, right: str) -> None:
    """As where a token is outside of the table: nobody knows what else is wrong, unless other arguments show it."""
    text = f"""ENTRY e {{ i = s32[] parameter(0)  x = f32[4] parameter(1)  l = s32[] constant({bound})
      ok = pred[] compare(i, l), direction=LT  n = f32[] constant(nan)  b = f32[4] broadcast(n), dimensions={{}}
      s = f32[4] select(ok, x, b)  k = f32[] constant(0.9)  kb = f32[4] broadcast(k), dimensions={{}}
      ROOT r = f32[4] multiply(s, kb) }}"""
    old, new = changed(text, "constant(0.9)", "constant(0.1)")
    assert (compare_runs(old, new).verdict, compare_runs(old, old).verdict) == (wrong, right)


def test_each_pass_is_compared_with_arguments_that_run_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = BRANCHES.replace("GIVEN", "p = pred[] parameter(0)")
    for at, each in enumerate((text, text, text.replace("negate", "cosine"), text.replace("negate", "cosine"))):
        (tmp_path / f"module_0000.m.{at:04}.pipeline.after_a{at}.before_a{at + 1}.txt").write_text(each)
    assert cli.main(["run", str(tmp_path), "--passes", "--json"], standalone=False) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [row["pass"] for row in answer["tables"]["passes"]["rows"]] == ["a2"]
    assert answer["answer"]["not_run"] == []


def test_choices_are_the_same_each_time() -> None:
    module = parse_module(BRANCHES.replace("GIVEN", "p = pred[] parameter(0)"))
    missing = missing_in(module, [])

    def made() -> list[str]:
        found = choices((module,), 0, lambda: (missing,), lambda: False)
        return [repr(each.applied(made_up_arguments(module, seed=each.seed))) for each in found]

    assert made() == made()


def test_choices_are_numbered() -> None:
    module = parse_module(BRANCHES.replace("GIVEN", "p = pred[] parameter(0)"))
    both = (False, True)
    for is_nan, is_infinite, is_large, missing in product(both, both, both, ([], missing_in(module, []))):
        found = choices(
            (module,), 0, partial(tuple, [missing]), partial(bool, is_nan), is_infinite=is_infinite, is_large=is_large
        )
        numbers = [each.number for each in found]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    ("lines", "terms", "bits"),
    [
        ("ROOT r = f32[4,4] call(x), to_apply=squared", 4, 23),
        ("ROOT r = f32[4,4] fusion(x), kind=kLoop, calls=squared", 4, 23),
        ("h = bf16[4,4] convert(x)  ROOT r = f32[4,4] convert(h)", 0, 7),
        ("a = f32[4,4] fusion(x), kind=kLoop, calls=squared  ROOT r = f32[4,4] call(a), to_apply=squared", 8, 23),
        # Sums beside each other do not add up.
        ("a = f32[4,4] call(x), to_apply=squared  ROOT r = f32[4,4] add(a, a)", 4, 23),
        (
            'ROOT r = f32[4,4] while(x), condition=go, body=squared, backend_config={"known_trip_count":{"n":"9"}}',
            36,
            23,
        ),
        # Of unknown rounds one counts.
        ("ROOT r = f32[4,4] while(x), condition=go, body=squared", 4, 23),
    ],
)
def test_sums_on_the_way_to_a_result_follow_each_other(lines: str, terms: int, bits: int) -> None:
    text = f"""HloModule m
squared {{ s = f32[4,4] parameter(0)
  ROOT d = f32[4,4] dot(s, s), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}
go {{ s = f32[4,4] parameter(0)  ROOT g = pred[] constant(false) }}
ENTRY e {{ x = f32[4,4] parameter(0)  {lines} }}"""
    assert rounding_of(parse_module(text)) == {(): Rounding(terms, bits)}


# --- comparisons meet equal operands ---

SUMS = """HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[8,16] parameter(0)  y = f32[8,16] parameter(1)  z = f32[] constant(0)  k = f32[] constant(LEVEL)
  q = f32[8,16] multiply(x, x)  c = f32[8,16] sine(x)  kb = f32[8,16] broadcast(k), dimensions={}
  s = f32[] reduce(x, z), dimensions={0,1}, to_apply=sum  t = f32[] reduce(y, z), dimensions={0,1}, to_apply=sum
  n = f32[] reduce(q, z), dimensions={0,1}, to_apply=sum  u = f32[] reduce(c, z), dimensions={0,1}, to_apply=sum
  lower = TYPE compare(OPERANDS), direction=LT  ROOT r = f32[8,16] select(lower, x, y) }
"""


def boundary(operands: str, level: str, direction: str = "LT") -> Module:
    kind = "pred[8,16]" if "kb" in operands else "pred[]"
    text = SUMS.replace("OPERANDS", operands).replace("LEVEL", level).replace("TYPE", kind)
    return parse_module(text.replace("direction=LT", f"direction={direction}"))


@pytest.mark.parametrize(
    ("operands", "level"),
    [("s, z", "1"), ("s, k", "7"), ("s, k", "-300"), ("s, t", "1"), ("n, k", "50"), ("n, k", "1e6"), ("x, kb", "1000")],
)
def test_sums_meet_what_they_are_compared_with(operands: str, level: str) -> None:
    """Sums of floats, and of their squares, are LT in one program and LE in the other."""
    old = boundary(operands, level)
    same = compare_runs(old, boundary(operands, level))
    assert (same.verdict, same.coverage.unmet) == ("identical", ())
    found = compare_runs(old, boundary(operands, level, "LE"))
    assert found.verdict == "different"
    assert found.first_difference is not None
    assert found.first_difference.instruction.name == "lower"


@pytest.mark.parametrize(("operands", "level"), [("x, kb", "0.5"), ("u, k", "0.25"), ("n, k", "-1")])
def test_bounds_that_are_not_met_are_named(
    operands: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other numbers than whole ones are equal but for rounding; a sum of squares is never negative."""
    for direction in ("LT", "LE"):
        (tmp_path / direction).write_text(boundary(operands, level, direction).source.text)
    old, new = str(tmp_path / "LT"), str(tmp_path / "LE")
    assert cli.main(["run", old, "--against", old, "--json"], standalone=False) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["answer"]["verdict"], answer["answer"]["unmet_comparisons"]) == ("identical", ["lower"])
    assert "lower never compared equal operands" in json.dumps(answer)
    assert cli.main(["run", old, "--against", new, "--json"], standalone=False) == 1
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert (answer["verdict"], answer["undecided_comparisons"]) == ("uncovered", ["lower"])
    assert cli.main(["run", old, "--against", new, "--format", "screen"], standalone=False) == 1
    words = "1 result agrees, but lower is LE in place of LT and never compared equal operands (4 of 4 computations ran"
    assert words in " ".join(capsys.readouterr().out.split())
    assert cli.main(["run", old, "--against", new, "--allow-uncovered"], standalone=False) == 0


def test_comparisons_that_no_argument_changes_are_covered() -> None:
    """The elements of an iota are never 10, so that LT and LE are the same; nor does the note name them."""
    text = """ENTRY e { x = f32[8] parameter(0)  i = s32[8] iota(), iota_dimension=0  k = s32[] constant(10)
      kb = s32[8] broadcast(k), dimensions={}  c = pred[8] compare(i, kb), direction=LT  z = f32[8] negate(x)
      ROOT r = f32[8] select(c, x, z) }"""
    found = compare_runs(*changed(text, "direction=LT", "direction=LE"))
    assert (found.verdict, found.coverage.unmet) == ("identical", ())


def test_numbers_that_only_rounding_makes_equal_are_not_met() -> None:
    """Sums of tenths in another order are other numbers, and the two programs are still the same."""
    text = """ENTRY e { x = f32[8] parameter(0)  y = f32[8] parameter(1)  k = f32[] constant(0.1)
      kb = f32[8] broadcast(k), dimensions={}  a = f32[8] multiply(x, kb)  b = f32[8] multiply(y, kb)  s = f32[8] add(a, b)
      c = pred[8] compare(s, kb), direction=LT  n = f32[8] negate(x)  ROOT r = f32[8] select(c, x, n) }"""
    other = text.replace("s = f32[8] add(a, b)", "t = f32[8] add(x, y)  s = f32[8] multiply(t, kb)")
    found = compare_runs(parse_module(text), parse_module(other))
    assert found.verdict in ("identical", "rounding")


@pytest.mark.parametrize(
    "times", [200, pytest.param(2000, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.long)]
)
def test_loops_in_loops_that_arguments_make_long_are_given_up(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With integers at bounds, both loops have so many iterations, which is within the limit of each."""
    monkeypatch.setattr(argument_sets, "_MAX_EXECUTED", argument_sets._MAX_EXECUTED * times // 5000)
    loop = """NAMEc { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1  ROOT l = pred[] compare(i, n), direction=LT }
      NAMEb { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
        INNER  ROOT t = (s32[], s32[]) tuple(j, n) }
      """
    call = """z = s32[] constant(0)  u = (s32[], s32[]) tuple(z, n)
        w = (s32[], s32[]) while(u), condition=NAMEc, body=NAMEb"""
    text = (
        "HloModule m\n"
        + loop.replace("NAME", "i").replace("INNER", "")
        + loop.replace("INNER", call.replace("NAME", "i")).replace("NAME", "o")
        + f"""ENTRY e {{ p = s32[] parameter(0)  k = s32[] constant({times})  three = s32[] constant(3)
        large = pred[] compare(p, k), direction=GE  n = s32[] select(large, p, three)
        """
        + call.replace("NAME", "o")
        + "  ROOT g = s32[] get-tuple-element(w), index=0 }"
    )
    start = process_time()
    assert compare_runs(parse_module(text), parse_module(text)).is_same
    assert process_time() - start < times / 150


def test_loops_that_end_in_one_module_only_are_not_the_same() -> None:
    """A loop that counts up to an argument: if that is negative, NE has no end in time."""
    text = """HloModule m
      c { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] get-tuple-element(s), index=1
        ROOT l = pred[] compare(i, n), direction=LT }
      b { s = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] get-tuple-element(s), index=1
        one = s32[] constant(1)  j = s32[] add(i, one)  ROOT t = (s32[], s32[]) tuple(j, n) }
      ENTRY e { n = s32[] parameter(0)  z = s32[] constant(0)  t = (s32[], s32[]) tuple(z, n)
        w = (s32[], s32[]) while(t), condition=c, body=b  ROOT g = s32[] get-tuple-element(w), index=0 }"""
    old, new = changed(text, "direction=LT", "direction=NE")
    assert compare_runs(old, old).is_same
    for pair, side in (((old, new), "second"), ((new, old), "first")):
        found = compare_runs(*pair)
        assert found.verdict == "uncovered"
        assert found.coverage.endless is not None
        assert found.coverage.endless[0] == side


# --- planted edits ---


EXECUTED = 100_000
"""Far above what the modules execute: an edit that makes a loop in a loop endless is given up in a second."""


def given_up(executed: int) -> None:
    if executed > EXECUTED:
        raise HloError("a loop of the edited module is too long")


def others(module: Module, seed: int) -> tuple[Value, ...]:
    """Arguments that no comparison uses; floats are whole numbers for the last two seeds, which meet bounds."""
    make = whole_arguments if runs_on_devices(module) else made_up_arguments
    random = np.random.default_rng(seed)

    def other(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(other, value))
        array = np.asarray(value)
        if value is None or array.dtype.kind not in "fiu":
            return value
        if array.dtype.kind == "f":
            return np.rint(array) if seed >= 6 else np.asarray(array * (1, 3, 0.1, 30)[seed % 4])
        return random.integers(0, 8, array.shape).astype(array.dtype)

    return tuple(map(other, make(module, seed=100 + seed, floats="widen")))


def alters(old: Module, new: Module) -> bool:
    """Whether any element of a result is another one, with any of eight sets of arguments."""
    assert old.entry.root is not None
    shape, failed = old.entry.root.shape, 0
    for seed in range(8):
        if failed == 2:
            return False
        try:
            results = [
                run(each, others(each, seed), floats="widen", limits=LIMITS, progress=given_up).result
                for each in (old, new)
            ]
        except HloError:
            failed += 1
            continue
        for (_, x, _), (_, y, _) in zip(*(arrays_of(each, shape) for each in results), strict=True):
            if x.shape != y.shape:
                return True
            with np.errstate(all="ignore"):
                is_finite = np.isfinite(x) & np.isfinite(y)
                apart = np.abs(x.astype(np.complex128) - y) > 1e-5 * np.maximum(np.abs(x), np.abs(y)) + 1e-9
            if (apart & is_finite).any():
                return True
    return False


def edits(old: Module, count: int, seed: int) -> Iterator[tuple[Planted, Module]]:
    """Edits after which a module runs and computes something else."""
    left = count
    for tried, change in enumerate(planted(old.source.text, Random(seed), with_parts=True)):
        if not left or tried == 12 * count:
            return
        try:
            new = parse_module(change.text)
            if not alters(old, new):
                continue
        except HloError:
            continue
        left -= 1
        yield change, new


class Tried(NamedTuple):
    """How many edits were compared, how many of them were refused, and those that were called the same program."""

    compared: int
    refused: int
    silent: list[str]


def tried(old: Module, count: int, seed: int = 3) -> Tried:
    """Compares a module with edits of itself; one may be refused, such as a loop without an end."""
    found, compared, refused = [], 0, 0
    for change, new in edits(old, count, seed):
        compared += 1
        try:
            is_same = compare_runs(old, new, limits=LIMITS).is_same
        except HloError:
            refused += 1
            continue
        if is_same:
            found.append(f"{change.kind} {change.name}")
    return Tried(compared, refused, found)


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_edits_of_nested_loops_are_not_called_the_same(count: int) -> None:
    lines = NESTED.replace("  ", "\n")
    found = tried(parse_module(lines), count)
    assert (found.compared >= count * 3 // 4, found.silent) == (True, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu/softmax", "tpu/v5e_branches"])
def test_edits_of_dumps_are_not_called_the_same(name: str) -> None:
    found = tried(load(FIXTURES / name, stage="after_optimizations"), 8)
    assert (found.compared >= 6, found.silent) == (True, [])


LEAST = {
    "cpu/softmax": 14, "cpu/names": 11, "cpu/dynamic": 10, "cpu/wide": 40, "tpu/v2_mlp": 40, "tpu/v3_indexing": 28,
    "tpu/v5e_branches": 26, "tpu/v5e_dynamic": 13, "tpu/v5p_scan": 40, "tpu/v6e_embedding": 5, "gpu/h100_mlp": 40,
    "gpu/h100_normalization": 40, "gpu/h100_scan": 40,
    "scan_in_scan": 56, "while_in_while": 56, "cond_in_scan": 36, "gru_like": 80, "attention": 38, "sort_gather": 61,
    "conv_pool": 25, "bf16_rnn": 28, "lstm_grad": 80, "newton": 79, "triple_loop": 57, "integers": 78,
}  # fmt: skip
"""How many edits are tried of each module, up to 40 of a text; of compiled ones, both stages. Small modules have fewer
that alter a result. Spectra are left out: their zero imaginary parts are errors of constants, and so is what an edit of
them alters."""


def test_a_thousand_edits_are_tried() -> None:
    assert sum(LEAST.values()) >= 1_000


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LEAST)
def test_a_thousand_edits_are_not_called_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict depends on the first difference, which takes most of the time."""
    pytest.importorskip("jax")
    monkeypatch.setattr(two_runs, "_first_difference", lambda setting, found: None)
    texts = compiled()[name] if name in COMPILED else [load(FIXTURES / name, stage="after_optimizations").source.text]
    found = [tried(parse_module(text), 40) for text in texts]
    compared, refused = sum(each.compared for each in found), sum(each.refused for each in found)
    print(f"{name}: {compared} edits, {refused} refused, silent: {[each.silent for each in found]}")
    assert compared >= LEAST[name]
    assert all(each.silent == [] for each in found)


def test_results_that_differ_are_counted_without_identical_ones(tmp_path: Path) -> None:
    """A sum in another order is rounded in another way, and what is negated is the same."""
    text = """HloModule m  ENTRY e { a = f32[64] parameter(0)  b = f32[64] parameter(1)  c = f32[64] parameter(2)
      s = f32[64] add(a, b)  t = f32[64] add(s, c)  n = f32[64] negate(a)  ROOT r = (f32[64], f32[64]) tuple(t, n) }"""
    (tmp_path / "a.hlo").write_text(text)
    (tmp_path / "b.hlo").write_text(text.replace("add(a, b)", "add(b, c)").replace("add(s, c)", "add(a, s)"))
    out, _, code = run_command(
        ["run", "a.hlo", "--against", "b.hlo", "--format", "screen"], folder=tmp_path, settings={}
    )
    assert code == 0
    assert out.startswith("The same program: 1 of 2 results differs by rounding only")


CANCELS = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  h = f32[64,200] parameter(0)  zero = f32[] constant(0)  part = f32[] constant(0.005)  small = f32[] constant(1e-5)
  parts = f32[64] broadcast(part), dimensions={}  smalls = f32[64] broadcast(small), dimensions={}
  sum = f32[64] reduce(h, zero), dimensions={1}, to_apply=add  mean = f32[64] multiply(sum, parts)
  means = f32[64,200] broadcast(mean), dimensions={0}  centered = f32[64,200] subtract(h, means)
"""
OF_CENTERED = """  squares = f32[64,200] multiply(centered, centered)
  total = f32[64] reduce(squares, zero), dimensions={1}, to_apply=add  variance = f32[64] multiply(total, parts)
"""
OF_SQUARES = """  squares = f32[64,200] multiply(h, h)  total = f32[64] reduce(squares, zero), dimensions={1}, to_apply=add
  second = f32[64] multiply(total, parts)  first = f32[64] multiply(mean, mean)
  variance = f32[64] subtract(second, first)
"""
SCALED = """  safe = f32[64] add(variance, smalls)  scale = f32[64] rsqrt(safe)
  scales = f32[64,200] broadcast(scale), dimensions={0}  ROOT r = f32[64,200] multiply(centered, scales) }
"""


def test_nan_of_the_new_module_alone_leads_with_its_origin(tmp_path: Path) -> None:
    """A variance as E[h²] − E[h]² cancels: in f32 it is negative, in f64 it agrees up to what cancels."""
    h = (9600 + np.random.default_rng(0).normal(0, 0.26, (64, 200))).astype(np.float32)
    old, new = (parse_module(f"{CANCELS}{part}{SCALED}") for part in (OF_CENTERED, OF_SQUARES))
    found = compare_runs(old, new, [h])
    assert found.verdict_on_results == "overflow"
    origin = found.invalid_origin
    assert origin is not None
    assert (origin.module, origin.wanted, origin.count) == (1, "nan", found.distances[0].nan[1])
    assert origin.maker is not None
    assert origin.sign_operand is not None
    assert (origin.maker.name, origin.sign_operand.name) == ("scale", "safe")
    assert not found.is_same
    assert compare_runs(new, old, [h]).is_same, "the new module is better than the old one"
    for name, module in zip("ab", (old, new), strict=True):
        (tmp_path / f"{name}.hlo").write_text(module.source.text)
    np.savez(tmp_path / "h.npz", h=h)
    out, _, code = run_command(
        ["run", "a.hlo", "--against", "b.hlo", "--args", "h.npz", "--format", "screen"], folder=tmp_path, settings={}
    )
    assert code == 1
    answer = " ".join(out.partition("\n\n")[0].split())
    assert answer.startswith(f"The second module makes {origin.count:,} NaN that the first does not, first at scale")
    assert "constant or an approximation" not in answer
