"""Expectations: what they read as, what they hold of, however operations are spelled, and where they are wrong."""

from __future__ import annotations

import json
import pickle
import re
import tomllib
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expecting import SPELLINGS, judged, stated
from hlo_cli import HloError, Source, load, memory_analysis, parse_module
from hlo_cli.analysis.query.assertions import check_assertions
from hlo_cli.analysis.query.logical_operations import logical_operations
from hlo_cli.analysis.schedule.async_overlap import async_pairs
from hlo_cli.cli import main
from hlo_cli.commands.help.catalog import source_of
from hlo_cli.commands.lint.assertion_results import expectations_in
from hlo_cli.ir.module import Module
from hlo_cli.syntax.expectations import Toml, place_in_string, read_expectations, toml_places
from hlo_cli.transform.sugar import desugar
from strategies import dumps, name_of

FIXTURES = Path(__file__).parent.parent / "fixtures"
GATHERED = FIXTURES / "tpu" / "v5e_gathered_weights"
WRONG = FIXTURES / "golden" / "lint" / "wrong.hlo"
LOOP = """HloModule m
body { p = (s32[], f32[64]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  x = f32[64] get-tuple-element(p), index=1  y = f32[64] copy(x)  ROOT t = (s32[], f32[64]) tuple(i, y) }
test { p = (s32[], f32[64]) parameter(0)  ROOT l = pred[] constant(false) }
ENTRY e { a = (s32[], f32[64]) parameter(0)  ROOT w = (s32[], f32[64]) while(a), condition=test, body=body }
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings above it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint(*arguments: object) -> int:
    return main(["lint", *map(str, arguments)], standalone=False)


def held(module: Module | str, *lines: str) -> list[bool | None]:
    return [each.is_met for each in judged(module, *lines)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_one_operation(spelling: str) -> None:
    text = SPELLINGS[spelling]
    numbers = [
        "count(opcode == all-gather) < 9",
        "count(has(opcode) and not fused) < 9",
        "sum(padded_bytes, opcode == all-gather) < 9",
        "sum(bytes, opcode == all-gather) < 9",
        "max(users, opcode == all-gather) < 9",
        "count(channel_id == 3) < 9",
        'count(op_name ~ "gather") < 9',
        "count(dims[0] == 256 and dtype == f32 and not fused) < 9",
        "count(opcode == all-gather and uses(%p)) < 9",
        "count(opcode == copy and not async) < 9",
        "count(opcode == all-gather and is_entry) < 9",
    ]
    expected = [each.found for each in judged(SPELLINGS["sync"], *numbers)]
    assert [each.found for each in judged(text, *numbers)] == expected
    assert expected[0] == 1
    assert held(text, "exists(opcode == all-gather and async)") == [spelling != "sync"]


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_operations_are_instructions_but_for_what_is_asynchronous(path: Path) -> None:
    module = load(path)
    pairs = async_pairs(module).pairs
    operations = logical_operations(module)
    starts = Counter(each.opcode for each in operations if each.is_async)
    assert starts == Counter(pair.operation for pair in pairs)
    if not pairs:
        assert [each.instruction for each in operations] == list(module.instructions)
    again = logical_operations(parse_module(str(desugar(module)))) if "-start(" in module.source.text else operations
    assert Counter(each.opcode for each in again) == Counter(each.opcode for each in operations)


@pytest.mark.parametrize(
    "path", [path for path in dumps() if "v5" in name_of(path) and "after" in path.name], ids=name_of
)
def test_numbers_are_those_of_the_other_commands(path: Path, capsys: Capture) -> None:
    """Peaks are those of memspace, and the bytes of all arrays those of layout, which counts each where it is defined."""
    file = Path("expect.toml")
    file.write_text("max_peak.hbm = 0\nmax_peak.vmem = 0\nexpect = ['sum(padded_bytes) == 0']\n")
    lint(path, "--expect", file, "--select", "HLO9", "--format", "json")
    rows = json.loads(capsys.readouterr().out)["tables"]["assertions"]["rows"]
    found = {row["assertion"].split()[0].split("(")[0]: row["actual"] for row in rows}
    main(["memspace", str(path), "--format", "json"], standalone=False)
    peaks = json.loads(capsys.readouterr().out)["answer"]["peak_bytes"]
    assert (found["max_peak.hbm"], found["max_peak.vmem"]) == (peaks.get("HBM", 0), peaks.get("VMEM", 0))
    main(["layout", str(path), "--format", "json"], standalone=False)
    assert found["sum"] == json.loads(capsys.readouterr().out)["answer"]["padded_bytes"]


def test_functions_and_limits() -> None:
    text = SPELLINGS["sync"]
    assert held(text, "count(opcode == copy) == 1", "count(opcode == copy) != 1", "count(rank == 2) >= 4") == [1, 0, 1]
    assert held(text, "none(opcode == copy)", "none(dtype == f64)", "exists(opcode == copy)") == [False, True, True]
    assert held(text, "max(padded_bytes) <= 128KiB", "max(padded_bytes) < 131_072", "min(rank) == 2") == [1, 0, 1]
    assert held(text, "sum(padded_bytes, opcode == copy) == 64 KiB", "max(users, where opcode == copy) == 0") == [1, 1]
    assert held(text, "max(padding) <= 0%", "count(name == 'a (strange, text') == 0") == [True, True]


def test_the_largest_of_nothing_keeps_upper_limits_alone() -> None:
    lines = [f"max(bytes, dtype == f64) {sign} 0" for sign in ("<", "<=", "!=", ">", ">=", "==")]
    assert held(SPELLINGS["sync"], *lines) == [True, True, True, False, False, False]


def test_loops() -> None:
    assert held(LOOP, "none(opcode == copy and loop)", "none(loop and is_entry)", "count(loop) == 7") == [0, 1, 1]


def test_what_overlaps_nothing_is_what_schedule_says(capsys: Capture) -> None:
    folder = FIXTURES / "gpu" / "h100_collectives"
    main(["schedule", str(folder), "--format", "json"], standalone=False)
    answer = json.loads(capsys.readouterr().out)["answer"]
    [verdict] = judged(load(folder), "count(unoverlapped) == 0")
    assert verdict.found == answer["unoverlapped"] > 0
    assert held(SPELLINGS["sync"], "count(unoverlapped) == 1", "none(unoverlapped and async)") == [True, True]


def test_fusions_are_known_by_what_is_in_them() -> None:
    text = """HloModule m
f { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p), metadata={op_name="step/flash_attention/neg"} }
ENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] fusion(x), kind=kLoop, calls=f, metadata={op_name="step/neg"} }
"""
    lines = ('exists(fusion ~ "flash")', "exists(fusion == y)", "exists(fusion == f)", "exists(fusion ~ softmax)")
    assert held(text, *lines) == [True, True, True, False]
    assert held(SPELLINGS["fusion"], "exists(fusion ~ begin)") == [False]


def test_what_cannot_be_told_is_not_met() -> None:
    cut = SPELLINGS["sync"].replace("negate(g)", "negate(h)")
    assert held(cut, "none(dtype == f64)") == [False]
    [verdict] = judged(SPELLINGS["sync"], "none(uses(%lost))")
    assert verdict.is_met is False
    assert "instruction 'lost' not found" in verdict.remark


def test_sections(tmp_path: Path, capsys: Capture) -> None:
    file, dump = tmp_path / "expect.toml", tmp_path / "step.hlo"
    dump.write_text(SPELLINGS["sync"])
    never = 'expect = ["none(rank >= 0)"]'
    for head, is_asked in (
        ('module."jit_st*"', True),
        ("module.jit_step", True),
        ("module.jit", False),
        ("target.cpu", True),
        ("target.tpu", False),
        ("target.cpu.module.jit_step", True),
        ("module.jit_step.target.gpu", False),
    ):
        file.write_text(f"[{head}]\n{never}\n")
        assert lint(dump, "--expect", file, "--select", "HLO9") == is_asked
        assert ("no module matches its section" in capsys.readouterr().err) is not is_asked


def test_a_memory_that_the_target_does_not_have_is_not_asked_for(tmp_path: Path, capsys: Capture) -> None:
    file, dump = tmp_path / "expect.toml", tmp_path / "step.hlo"
    dump.write_text(SPELLINGS["sync"])
    file.write_text("max_peak.hbm = 1\nmax_peak.ram = 1\n")
    assert lint(dump, "--expect", file, "--select", "HLO9", "--format", "json") == 1
    rows = json.loads(capsys.readouterr().out)["tables"]["assertions"]["rows"]
    assert {row["assertion"]: row["result"] for row in rows} == {
        "max_peak.hbm <= 1": "skipped",
        "max_peak.ram <= 1": "failed",
    }


@pytest.mark.parametrize(("count", "more"), [(1, ""), (3, ""), (4, ", and 1 more"), (1005, ", and 1,002 more")])
def test_the_first_few_that_fail_are_named(count: int, more: str, elsewhere: Path, capsys: Capture) -> None:
    copies = "".join(f"  c{number} = f32[2] copy(p)\n" for number in range(count))
    elsewhere.joinpath("m.hlo").write_text(f"HloModule m\nENTRY e {{\n  p = f32[2] parameter(0)\n{copies}}}\n")
    elsewhere.joinpath("e.toml").write_text('expect = ["none(opcode == copy)"]')
    assert lint("m.hlo", "--expect", "e.toml", "--select", "HLO9", "--format", "concise") == 1
    named = ", ".join(f"c{number} (line {number + 4})" for number in range(min(count, 3)))
    assert f"found {count:,}: {named}{more}\n" in capsys.readouterr().out.replace(" required by", "\n")


def test_exit_codes_and_where_expectations_come_from(elsewhere: Path, capsys: Capture) -> None:
    well = elsewhere / "well.hlo"
    well.write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    (elsewhere / "never.toml").write_text('expect = ["none(opcode == parameter)"]\n')
    (elsewhere / "always.toml").write_text('expect = ["exists(opcode == parameter)"]\n')
    assert lint(well) == 0
    assert lint(well, "--expect", "always.toml") == 0
    assert lint(well, "--expect", "always.toml", "--expect", "never.toml") == 1
    assert lint(well, "--expect", "never.toml", "--exit-zero") == 0
    assert lint(well, "--expect", "lost.toml") == 2
    assert lint(well, "--expect", "never.toml", "--select", "HLO1") == 1
    assert lint(well, "--expect", "never.toml", "--ignore", "HLO901") == 0
    inner = elsewhere / "inner"
    inner.mkdir()
    (elsewhere / "hlo.toml").write_text('[lint]\nexpect = "never.toml"\n')
    assert lint(well) == 1
    assert lint(well, "--isolated") == 0
    assert lint(well, "--expect", "always.toml") == 0
    capsys.readouterr()


def test_a_baseline_does_not_silence_expectations(elsewhere: Path, capsys: Capture) -> None:
    (elsewhere / "never.toml").write_text('expect = ["none(opcode == parameter)"]\n')
    assert lint(WRONG, "--write-baseline", "known.json") == 0
    capsys.readouterr()
    assert lint(WRONG, "--baseline", "known.json", "--expect", "never.toml", "--format", "concise") == 1
    assert re.findall(r"HLO\d+", capsys.readouterr().out) == ["HLO901"]


@pytest.mark.parametrize("format_", ["concise", "github", "gitlab", "junit", "sarif", "csv", "jsonl", "full", "html"])
def test_every_format_tells_what_and_where(format_: str, elsewhere: Path, capsys: Capture) -> None:
    (elsewhere / "expect.toml").write_text('expect = [{that = "none(opcode == copy)", why = "no copies"}]\n')
    lint(GATHERED, "--select", "HLO9", "--expect", "expect.toml", "--format", format_)
    out = capsys.readouterr().out
    assert "HLO901" in out
    assert "184" in out
    assert "found 3: copy-start (line 184), copy" in " ".join(out.split())


def test_many_dumps_in_several_processes(elsewhere: Path, capsys: Capture) -> None:
    (elsewhere / "expect.toml").write_text('expect = ["none(opcode == copy)"]\nmax_peak.hbm = "1KiB"\n')
    (elsewhere / "bad.hlo").write_text("HloModule m\nENTRY e {\n}\n")
    folders = sorted(folder for folder in (FIXTURES / "tpu").iterdir() if folder.is_dir())[:2]
    arguments = [folders[0], "bad.hlo", "lost.hlo", folders[1], WRONG, "--expect", "expect.toml"]
    told = []
    for jobs in ((), ("--jobs", 1), ("--jobs", 2), ("--jobs", 3)):
        assert lint(*arguments, "--format", "json", *jobs) == 2
        told.append(capsys.readouterr())
    assert all(each == told[0] for each in told)
    assert "bad.hlo" in told[0].err
    assert "lost.hlo" in told[0].err


def test_what_is_asked_can_be_sent_to_another_process() -> None:
    """Where processes are not copies of the first, as on macOS, expectations go to them by pickling."""
    expectations = stated('exists(fusion ~ "flash" and padded_bytes > 1MiB)', "sum(flops, not fused) < 3e9")
    again = pickle.loads(pickle.dumps(expectations))
    assert [str(each) for each in again] == [str(each) for each in expectations]
    module = parse_module(SPELLINGS["sync"])
    found = [
        [(each.is_met, each.found) for each in check_assertions(module, sent, memory=lambda: memory_analysis(module))]
        for sent in (expectations, again)
    ]
    assert found[0] == found[1]


def test_findings_of_another_process_are_quoted(elsewhere: Path, capsys: Capture) -> None:
    """The lines that are meant come along with their numbers, the rest of the text does not."""
    screens = []
    for jobs in (1, 2):
        lint(WRONG, GATHERED, "--jobs", jobs, "--format", "full")
        screens.append(capsys.readouterr().out)
    assert screens[0] == screens[1]
    assert "^^^" in screens[0]


def test_the_example_of_the_help_is_one(elsewhere: Path) -> None:
    blocks = re.findall(r"(?s)```toml\n(.*?)```", source_of("expect"))
    for at, block in enumerate(blocks):
        (elsewhere / f"{at}.toml").write_text(block)
    assert [len(expectations_in([f"{at}.toml"])) for at in range(len(blocks))] == [9, 4, 5]


def test_places_in_strings_with_escapes() -> None:
    for written, value in (
        (r'"count(op_name ~ \"a\\tb\" and opcode = add) < 1"', "="),
        ("'count(opcode = add) < 1'", "="),
        ('"""\ncount(opcode == \\\n    copy and opcode = add) < 1"""', "="),
        ('"\\u0063ount(opcode = add) < 1"', "="),
        ("'''\ncount(opcode = add) < 1'''", "="),
    ):
        source = Source("e.toml", f"# é\r\nexpect = [\n {written}]\n".replace("\r\n", "\n"))
        with pytest.raises(HloError) as caught:
            read_expectations(source)
        diagnostic = caught.value.diagnostic
        assert diagnostic.span is not None
        assert source.slice(diagnostic.span) == value
        assert source.text[diagnostic.span.start : diagnostic.span.start + 5] == "= add"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nexpect = [«=»]", "invalid value"),
        ("«expect» = 3", "expect must be a list of strings"),
        ("«max_peak» = '3GiB'", "max_peak must be a table"),
        ("expect = [«3»]", "expected a string"),
        ("«max_peak.hbm» = true", "expected a size, found True"),
        ("max_peak.hbm = '14 «apples»'", "unknown unit 'apples'"),
        ("max_peak.hbm = «-3»", "expected a size"),
        ("«[target.tpus]»\nexpect = ['none(fused)']", "unknown target 'tpus'"),
        ("«module.jit» = 3", "module jit must be a section"),
        ("expect = [«{that = 'none(fused)', whi = 'x'}»]", "expected a string"),
        ("expect = ['count(«)» < 3']", "empty"),
        ("expect = ['sum(«)» < 3']", "expected a field"),
        ("expect = ['max(«rank > 2», fused) < 3']", "expected a field"),
        ("expect = ['none(fused) «<= 3»']", "none() takes no limit"),
        ("expect = ['count(fused) <= «3 and 4»']", "expected a size"),
        ("expect = ['count(fused) <= «»']", "expected a number after <="),
        ("expect = ['count(fused) «=» 3']", "expected a comparison, found '='"),
        ("expect = ['count(fused) < «3kg»']", "unknown unit 'kg'"),
        ("expect = ['none(opcode in (add, «all-gather-done»))']", "all-gather-done is matched as all-gather"),
        ("expect = ['none(opcode == «async-start»)']", "async-start is matched as the operation that it starts"),
        ("expect = ['none(not (opcode == «fusoin» or fused))']", "unknown opcode 'fusoin'"),
        ("expect = ['count(fused)«)» < 3']", "expected a limit"),
        ("expect = ['count«(»fused < 3']", "unclosed '('"),
        ("expect = ['«fused»']", "unknown function 'fused'"),
        ("expect = ['«»']", "expected a function"),
        ("expect = ['max(dims[0], rank > 0) <= «3MiB»']", "wrong unit for dims[0]: 3MiB"),
        ("expect = ['sum(«dims[x]») <= 3']", "dims has no x"),
        ("expect = ['count(fused) <= «3MiB»']", "expected a number of operations, found 3MiB"),
        ("expect = ['none(name ~ \"«(»\")']", "invalid regular expression"),
    ],
)
def test_errors_have_places(text: str, message: str, elsewhere: Path) -> None:
    before, _, rest = text.partition("«")
    meant, _, after = rest.partition("»")
    (elsewhere / "expect.toml").write_text(before + meant + after)
    with pytest.raises(HloError) as caught:
        expectations_in(["expect.toml"])
    assert message in caught.value.diagnostic.message
    span = caught.value.diagnostic.span
    assert span is not None
    assert span.start == len(before)
    assert not meant or (before + meant + after)[span.start : span.end] == meant


def test_a_file_without_expectations_is_an_error(elsewhere: Path) -> None:
    """It would pass whatever happens."""
    (elsewhere / "expect.toml").write_text("# none\n[target.tpu]\n")
    with pytest.raises(HloError, match="contains no assertions"):
        expectations_in(["expect.toml"])


@given(st.text(max_size=60), st.integers(0, 3))
def test_no_text_is_too_strange(text: str, shape: int) -> None:
    """What is wrong is an error of the file, with a place in it, whatever it is."""
    whole = (text, f"expect = [{json.dumps(text)}]", f"max_peak.hbm = {json.dumps(text)}", f"[module.{text}]")[shape]
    with suppress(HloError):
        read_expectations(Source("e.toml", whole + "\n[target]\nmax_peak = 3"))


_KEYS = st.one_of(st.text("ab-_1", min_size=1, max_size=3), st.text(max_size=3).map(json.dumps))
_LEAVES = st.one_of(
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=True)),
    st.text("ab,]}#= ", max_size=8).map(lambda text: f"'{text}'"),
    st.text('ab"\n#]', max_size=8).map(lambda text: f"'''{text}'''"),
    st.sampled_from(
        ['"""a""b\\\n  c"""', '""""q"""', "1_000", "true", "1979-05-27 07:32:00", "-0.5e3", '"""""""', "[]"]
    ),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda found: f"[ # x ]\n {', '.join(found)} ]"),
        st.dictionaries(_KEYS, inner, max_size=2).map(
            lambda found: "{" + ", ".join(f"{key} = {value}" for key, value in found.items()) + "}"
        ),
    ),
    max_leaves=6,
)
_TABLES = st.lists(st.tuples(st.booleans(), _KEYS, st.dictionaries(_KEYS, _VALUES, max_size=3)), max_size=3)


def _at(content: Toml, path: tuple[str | int, ...]) -> Toml:
    for step in path:
        match content, step:
            case dict(), str():
                content = content[step]
            case list(), int():
                content = content[step]
    return content


@given(_TABLES)
def test_places_hold_what_the_reader_of_toml_reads(tables: list[tuple[bool, str, dict[str, str]]]) -> None:
    parts = []
    for is_array, name, pairs in tables:
        parts.append(f"[[{name}]] # [a]" if is_array else f"  [ {name} ]")
        parts += [f"{key}\t= {value}   # why = 3" for key, value in pairs.items()]
    text = "\n".join(parts) + "\n"
    try:
        content: Toml = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    source = Source("a.toml", text)
    for path, place in toml_places(source).items():
        value = _at(content, path)
        written = source.slice(place.value)
        if not written.startswith("[") or place.key is None or place.key != place.value:
            assert tomllib.loads(f"v = {written}")["v"] == value
        if isinstance(value, str) and written[0] in "\"'":
            for at, character in enumerate(value):
                start = place_in_string(source, place.value, at)
                assert source.text[start] in (character, "\\")


def test_expectations_that_read_alike_are_two() -> None:
    [first, second] = stated("none(fused)", "none(fused)")
    assert first.source.slice(first.span) == second.source.slice(second.span)
    assert first.span != second.span


_TILED = "f32[128,128]{1,0:T(8,128)}"
_ELSEWHERE = {
    "tpu": (f"r = {_TILED} convolution({_TILED} a, {_TILED} b), dim_labels=bf_io->bf", "dot", "TPU modules use convolution instead (1 instruction here)"),
    "tpu without products": (f"r = {_TILED} negate({_TILED} a)", "dot", "TPU modules use convolution instead"),
    "gpu": (
        'r = (f32[8,8], s8[64]) custom-call(f32[8,8] a, f32[8,8] b), custom_call_target="__cublas$gemm"',
        "dot", "this GPU module uses custom-call __cublas$gemm instead (1 instruction here)",
    ),
    "gpu convolution": (
        'r = (f32[8,8], u8[0]) custom-call(f32[8,8] a), custom_call_target="__cudnn$convForward"',
        "convolution", "this GPU module uses custom-call __cudnn$convForward instead (1 instruction here)",
    ),
    "cpu": (
        'r = f32[8,8] custom-call(f32[8,8] a, f32[8,8] b), custom_call_target="__onednn$matmul"',
        "dot", "this CPU module uses custom-call __onednn$matmul instead (1 instruction here)",
    ),
    "gpu sort": (
        'r = (f32[8], s8[64]) custom-call(f32[8] a), custom_call_target="__cub$DeviceRadixSort"',
        "sort", "this GPU module uses custom-call __cub$DeviceRadixSort instead (1 instruction here)",
    ),
}  # fmt: skip


def _warned(instruction: str, expectation: str, elsewhere: Path, capsys: Capture) -> list[str]:
    """The warnings of an expectation about a module of one instruction."""
    elsewhere.joinpath("m.hlo").write_text(instruction)
    elsewhere.joinpath("e.toml").write_text(f"expect = [{json.dumps(expectation)}]")
    lint("m.hlo", "--expect", "e.toml", "--select", "HLO9", "--format", "concise")
    return [line for line in capsys.readouterr().out.splitlines() if "HLO902 warning" in line]


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_an_opcode_that_has_another_name_there_is_told(name: str, elsewhere: Path, capsys: Capture) -> None:
    instruction, opcode, spelled = _ELSEWHERE[name]
    for expectation in (f"none(opcode == {opcode} and dtype == f32)", f"count(opcode in (add, {opcode})) == 0"):
        [line] = _warned(instruction, expectation, elsewhere, capsys)
        assert line.endswith(f" names {opcode}, but {spelled}")


@pytest.mark.parametrize(
    ("instruction", "expectation"),
    [
        (_ELSEWHERE["tpu"][0], "count(product) == 1"),
        (_ELSEWHERE["tpu"][0], "count(opcode in (dot, convolution)) == 1"),
        (_ELSEWHERE["tpu"][0], "none(opcode == add)"),
        (_ELSEWHERE["gpu"][0], "count(opcode in (dot, custom-call)) == 1"),
        (_ELSEWHERE["gpu"][0], "none(opcode == convolution)"),
        (f"r = {_TILED} dot({_TILED} a, {_TILED} b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", "count(opcode == dot) == 1"),
        ("r = f32[8,8] convolution(f32[8,8] a, f32[8,8] b), dim_labels=bf_io->bf", "none(opcode == dot)"),
    ],
)  # fmt: skip
def test_what_has_its_own_name_there_is_not(
    instruction: str, expectation: str, elsewhere: Path, capsys: Capture
) -> None:
    assert not _warned(instruction, expectation, elsewhere, capsys)


def test_a_product_is_expected_in_any_spelling(elsewhere: Path, capsys: Capture) -> None:
    for instruction, opcode, _ in _ELSEWHERE.values():
        elsewhere.joinpath("m.hlo").write_text(instruction)
        elsewhere.joinpath("e.toml").write_text('expect = ["none(product and dtype == f32)"]')
        is_met = lint("m.hlo", "--expect", "e.toml", "--select", "HLO9") == 0
        assert is_met == (opcode == "sort" or "negate" in instruction)
    capsys.readouterr()
