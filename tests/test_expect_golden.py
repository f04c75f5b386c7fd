"""Limits of a golden dump, and warnings on assertions that cannot fail or that nothing meets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from expecting import judged, stated
from hlo_cli import load, memory_analysis, parse_module
from hlo_cli.analysis.query.assertions import check_assertions, golden_values
from hlo_cli.cli import main
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

FIXTURES = Path(__file__).parent.parent / "fixtures"
GATHERED = FIXTURES / "tpu" / "v5e_gathered_weights"
CONV = FIXTURES / "tpu" / "v5e_conv"
MLP = FIXTURES / "tpu" / "v2_mlp"
SMALL = "HloModule {name}, is_scheduled=true\nENTRY e {{ p = f32[{n}]{{0}} parameter(0)  ROOT r = f32[{n}]{{0}} negate(p) }}\n"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings above it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint(*arguments: object) -> int:
    return main(["lint", *map(str, arguments), "--select", "HLO9"], standalone=False)


def results(capsys: Capture, *arguments: object) -> dict[str, tuple[str, object, object]]:
    lint(*arguments, "--format", "json")
    rows = json.loads(capsys.readouterr().out)["tables"]["assertions"]["rows"]
    return {row["assertion"]: (row["result"], row["actual"], row["limit"]) for row in rows}


def _expect(*lines: str, head: str = "") -> str:
    Path("expect.toml").write_text(f"{head}\nexpect = {json.dumps(lines)}\n")
    return "expect.toml"


def _compared(module: Module, golden: Module, *lines: str) -> list[tuple[bool | None, object, object]]:
    listed = stated(*lines)
    values = golden_values(golden, listed, memory=lambda: memory_analysis(golden))
    found = check_assertions(module, listed, memory=lambda: memory_analysis(module), golden=values)
    return [(each.is_met, each.found, each.limit) for each in found]


def test_every_quantity_is_compared_with_itself_in_the_golden_module() -> None:
    new, old = parse_module(SMALL.format(name="m", n=100)), parse_module(SMALL.format(name="m", n=64))
    lines = ("peak.ram", "sum(bytes)", "count(kernels)", "max(padded_bytes)", "sum(bytes) / max(padded_bytes)")
    for line in lines:
        [(is_met, found, limit)] = _compared(new, old, f"{line} <= golden")
        [(_, expected, _)] = _compared(old, old, f"{line} <= golden")
        assert limit == expected
        assert is_met is (found <= limit)  # type: ignore[operator]
    assert _compared(old, old, *(f"{line} == golden" for line in lines)) == [
        (True, found, found) for _, found, _ in _compared(old, old, *(f"{line} == golden" for line in lines))
    ]
    assert [met for met, _, _ in _compared(new, old, "sum(bytes) <= golden * 1.5", "sum(bytes) <= golden * 160%")] == [
        False,
        True,
    ]
    assert [met for met, _, _ in _compared(new, old, "sum(bytes) <= golden + 287", "sum(bytes) <= golden + 288B")] == [
        False,
        True,
    ]


def test_the_largest_of_nothing_in_one_of_the_modules() -> None:
    plain, copied = (
        "HloModule m\nENTRY e { ROOT p = f32[8] parameter(0) }",
        "HloModule m\nENTRY e { p = f32[8] parameter(0)  ROOT c = f32[8] copy(p) }",
    )
    largest = "max(padded_bytes, opcode == copy) <= golden"
    for new, old, is_met in (
        (plain, plain, True),
        (copied, copied, True),
        (plain, copied, True),
        (copied, plain, False),
    ):
        assert _compared(parse_module(new), parse_module(old), largest)[0][0] is is_met


def test_a_dump_is_compared_with_the_golden_one(capsys: Capture) -> None:
    file = _expect(
        "peak.hbm <= golden * 1.02", "count(kernels) == golden", "none(dtype == f64)", head='max_peak.vmem = "golden"'
    )
    same = results(capsys, GATHERED, "--expect", file, "--golden", GATHERED)
    assert {result for result, _, _ in same.values()} == {"passed"}
    _, peak, limit = same["peak.hbm <= golden * 1.02"]
    assert isinstance(peak, int)
    assert limit == pytest.approx(1.02 * peak)
    other = results(capsys, GATHERED, "--expect", file, "--golden", MLP)
    assert other["count(kernels) == golden"] == ("failed", 9, 22)
    assert lint(GATHERED, "--expect", file, "--golden", MLP, "--format", "concise") == 1
    assert "expected count(kernels) == golden, found 9, limit 22: " in capsys.readouterr().out


def test_modules_are_paired_by_name(capsys: Capture, elsewhere: Path) -> None:
    for folder, sizes in (("new", {"a": 64, "b": 100, "c": 1}), ("old", {"a": 64, "b": 64})):
        (elsewhere / folder).mkdir()
        for name, n in sizes.items():
            (elsewhere / folder / f"{name}.hlo").write_text(SMALL.format(name=name, n=n))
    file = _expect("sum(bytes) <= golden")
    code = lint("new/a.hlo", "new/b.hlo", "new/c.hlo", "--expect", file, "--golden", "old/*.hlo", "--format", "json")
    rows = json.loads(capsys.readouterr().out)["tables"]["assertions"]["rows"]
    assert {row["module"]: row["result"] for row in rows} == {"a": "passed", "b": "failed", "c": "skipped"}
    assert code == 1
    again = [
        lint("new/a.hlo", "new/b.hlo", "--expect", file, "--golden", "old/*.hlo", "--jobs", jobs) for jobs in (1, 2)
    ]
    assert again == [1, 1]


@pytest.mark.parametrize(
    ("lines", "options", "message", "place"),
    [
        (["count(fused) <= golden"], [], "golden requires --golden DUMP", "count(fused) <= golden"),
        (["count(fused) <= 3"], ["--golden", str(CONV)], "--golden has no effect", ""),
        (["count(fused) <= golden"], ["--golden", "lost.hlo"], "'lost.hlo'", ""),
    ],
)
def test_golden_is_given_where_it_is_needed(
    lines: list[str], options: list[str], message: str, place: str, capsys: Capture
) -> None:
    assert lint(CONV, "--expect", _expect(*lines), *options) == 2
    err = capsys.readouterr().err
    assert message in err
    assert place in err


def test_golden_requires_expectations(capsys: Capture) -> None:
    assert main(["lint", str(CONV), "--golden", str(CONV)], standalone=False) == 2
    assert "--golden requires --expect FILE" in capsys.readouterr().err


def test_settings_can_name_the_golden_dump(capsys: Capture, elsewhere: Path) -> None:
    _expect("count(kernels) <= golden")
    (elsewhere / "old.hlo").write_text(SMALL.format(name="m", n=64))
    (elsewhere / "hlo.toml").write_text('[lint]\nexpect = "expect.toml"\ngolden = "old.hlo"\n')
    assert lint("old.hlo") == 0
    _expect("none(dtype == f64)")
    assert lint("old.hlo") == 0
    (elsewhere / "hlo.toml").write_text('[lint]\ngolden = "lost.hlo"\n')
    assert main(["lint", "old.hlo", "--exit-zero"], standalone=False) == 0


TILED = "f32[128,128]{1,0:T(8,128)}"
TPU = f"r = {TILED} negate({TILED} a)"
UNOPTIMIZED = "HloModule m\nENTRY e { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }"
CPU = "HloModule m, is_scheduled=true\nENTRY e { p = f32[8]{0} parameter(0)  ROOT n = f32[8]{0} negate(p) }"


@pytest.mark.parametrize(
    ("module", "line", "message"),
    [
        (TPU, "none(bytes < 0)", "bytes < 0 is never true"),
        (TPU, "none(bytes * trips <= -1)", "bytes * trips <= -1 is never true"),
        (TPU, "none(rank < 0 and opcode == copy)", "rank < 0 is never true"),
        (TPU, "exists(bytes >= 0)", "bytes >= 0 is always true"),
        (TPU, "count(users >= 0) >= 1", "users >= 0 is always true"),
        (TPU, "count(fused) >= 0", "count(fused) is always at least 0"),
        (TPU, "sum(bytes) + count(fused) * 1MiB >= 0", "sum(bytes) + count(fused) * 1MiB is always at least 0"),
        (TPU, "max(bytes) > -1", "max(bytes) is always at least 0"),
        (TPU, "peak.hbm >= 0", "peak.hbm is always at least 0"),
        (TPU, "none(padding > 100%)", "padding > 100% is never true"),
        (TPU, "none(opcode == copy and opcode == add)", "opcode == copy and opcode == add is never true"),
        (TPU, "none(fused and not fused)", "fused and not fused is never true"),
        (TPU, "none(opcode in (fft, cholesky))", "is never true on TPU: the compiler replaces fft, cholesky"),
        (TPU, "none(memory_space == 9)", "it has no such memory space"),
        (CPU, "none(memory_space == 1)", "memory_space == 1 is never true on CPU"),
        (CPU, "none(padding > 50%)", "padding > 50% is never true on CPU: arrays have no padding"),
        (CPU, "sum(padding_bytes) <= 1MiB", "sum(padding_bytes) is always at most 0"),
        (UNOPTIMIZED, "none(fused and dtype == f64)", "fused is never true before optimization"),
        (UNOPTIMIZED, "none(opcode == fusion and bytes > 1GiB)", "opcode == fusion is never true before optimization"),
    ],
)  # fmt: skip
def test_what_cannot_fail_is_told(module: str, line: str, message: str, capsys: Capture) -> None:
    [result] = judged(module, line)
    assert result.is_met is True
    [caution] = result.cautions
    assert caution.cannot_fail
    assert message in caution.message
    Path("m.hlo").write_text(module)
    assert lint("m.hlo", "--expect", _expect(line), "--format", "concise") == 1
    assert f"HLO902 warning {line} cannot fail: " in capsys.readouterr().out
    lint("m.hlo", "--expect", _expect(line), "--format", "concise", "--strict")
    assert f"HLO902 error {line} cannot fail: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (TPU, "none(bytes > 1GiB)"),
        (TPU, "count(rank >= 0) <= 3"),
        (TPU, "count(fused) >= 1"),
        (TPU, "count(fused) <= 0"),
        (TPU, "max(padding) <= 99%"),
        (TPU, "none(padding >= 100%)"),
        (TPU, "none(opcode == copy and op_name == add)"),
        (TPU, "none(opcode in (fft, copy))"),
        (TPU, "none(memory_space == 6)"),
        (TPU, "sum(bytes) - sum(bytes, fused) >= 0"),
        (TPU, "count(loop) / count(rank == 2) <= 10%"),
        (CPU, "none(fused and dtype == f64)"),
        (CPU, "none(host_transfer)"),
        (UNOPTIMIZED, "none(opcode == copy)"),
        (UNOPTIMIZED, "count(opcode in (fusion, copy)) == 0"),
        (CPU, "none(opcode == all-gather)"),
    ],
)
def test_what_can_fail_is_not(module: str, line: str) -> None:
    [result] = judged(module, line)
    assert not any(each.cannot_fail for each in result.cautions)


def test_a_part_that_selects_nothing_or_everything_is_told() -> None:
    [result] = judged(TPU, "count(opcode == copy and bytes >= 0) <= 3")
    assert [(each.message, each.cannot_fail) for each in result.cautions] == [("bytes >= 0 is always true", False)]
    [either] = judged(TPU, "none(bytes < 0 or opcode == copy)")
    assert [(each.message, each.cannot_fail) for each in either.cautions] == [("bytes < 0 is never true", False)]


def test_cautions_hold_for_all_dumps() -> None:
    """A condition that is said to be never, or always, true is so in every module."""
    lines = [
        "count(opcode == fft) < 9", "count(opcode == cholesky) < 9", "count(opcode == topk) < 9", "count(fused) < 9",
        "count(opcode == opt-barrier) < 9", "count(padding > 0) < 9", "count(opcode == rng-bit-generator) < 9",
        "count(opcode == call) < 9", "count(opcode == get-dimension-size) < 9", "count(memory_space == 1) < 9",
        "count(memory_space == 4) < 9", "count(opcode == fusion) < 9", "count(bytes < 0) < 9", "count(opcode == complex) < 9",
    ]  # fmt: skip
    for path in sorted(FIXTURES.glob("*/*/*optimizations.txt"))[::2]:
        for result in judged(load(path), *lines):
            if result.cautions and "never" in result.cautions[0].message:
                assert result.found == 0, (path, result.expectation)


NAMED = "HloModule m\nENTRY e {{ p = f32[8] parameter(0){0}  ROOT n = f32[8] copy(p){1} }}\n"


def _named(parameter: str, copy: str) -> str:
    return NAMED.format(*(f', metadata={{op_name="{name}"}}' if name else "" for name in (parameter, copy)))


@pytest.mark.parametrize(
    ("names", "line", "unmatched"),
    [
        (("params", "f/mlp"), "none(op_name ~ atention and opcode == copy and is_root)", ("op_name ~ atention",)),
        (("params", "f/mlp"), "none(op_name ~ mlp and opcode == add)", ()),
        (("params", "f/mlp"), "none(op_name ~ atention)", ()),
        (("", ""), "none(op_name ~ atention)", ("op_name ~ atention",)),
        (("params", "f/mlp"), "none(of_argument(~opt) and opcode == add)", ("of_argument(~opt)",)),
        (("params", "f/mlp"), "none(of_argument(~opt))", ("of_argument(~opt)",)),
        (("params", "f/mlp"), "none(of_argument(~params) and opcode == add)", ()),
        (("params", "f/mlp"), "exists(op_name ~ atention and opcode == copy)", ()),
        (("params", "f/mlp"), "none(source == model.py:3 and opcode == copy)", ("source == model.py:3",)),
    ],
)
def test_a_condition_that_nothing_meets_is_told(
    names: tuple[str, str], line: str, unmatched: tuple[str, ...], capsys: Capture
) -> None:
    text = _named(*names)
    assert judged(text, line)[0].unmatched == unmatched
    Path("m.hlo").write_text(text)
    code = lint("m.hlo", "--expect", _expect(line))
    err = capsys.readouterr().err
    assert [f"has no effect: no operation matches {each}" in " ".join(err.split()) for each in unmatched] == [
        True
    ] * len(unmatched)
    if unmatched:
        assert code == 0
        assert lint("m.hlo", "--expect", _expect(line), "--strict") == 1
        assert "error: " in capsys.readouterr().err


def test_a_condition_that_one_of_the_modules_meets_is_not(capsys: Capture) -> None:
    Path("a.hlo").write_text(_named("params", "f/mlp"))
    Path("b.hlo").write_text(_named("params", "f/attention"))
    file = _expect("none(op_name ~ attention and opcode == add)")
    assert lint("a.hlo", "b.hlo", "--expect", file) == 0
    assert "has no effect" not in capsys.readouterr().err


def test_a_section_that_no_module_matches_is_an_error_if_strict(capsys: Capture) -> None:
    Path("m.hlo").write_text(CPU)
    Path("expect.toml").write_text('[target.tpu]\nexpect = ["none(fused)"]\n')
    assert lint("m.hlo", "--expect", "expect.toml") == 0
    assert "warning: skipped 'none(fused)': no module matches its section" in " ".join(capsys.readouterr().err.split())
    assert lint("m.hlo", "--expect", "expect.toml", "--strict") == 1
    assert "error: skipped" in capsys.readouterr().err


def test_a_limit_needs_a_quantity() -> None:
    with pytest.raises(HloError, match="no quantity to measure"):
        stated("3 <= 4")
