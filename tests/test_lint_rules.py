"""Every rule finds what breaks it, where it stands, and leaves alone what narrowly does not; and every rule has a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import hlo_cli
from hlo_cli import parse_module
from hlo_cli.commands.lint.configuration import report_of_rule
from hlo_cli.lint.rule import Rule
from hlo_cli.lint.run import RULES, lint_module, rule_of, selected_rules
from hlo_cli.lint.settings import MEANINGS, LintSettings
from hlo_cli.render.formats.screen import render_screen
from hlo_cli.render.style import Style
from hlo_cli.report.findings import Finding
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.strict_reader import check_strictly
from lint_cases import CASES as FORM_CASES
from lint_cases import NEGATE, PAIR, TWO, Case, V, X, Z, entry, module
from lint_cost_cases import COST_CASES, ROUNDS
from lint_examples import CONTEXTS
from strategies import dump_text, dumps, name_of

CASES = (*FORM_CASES, *COST_CASES)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
each_case = pytest.mark.parametrize("case", CASES, ids=[f"{case.code}-{n}" for n, case in enumerate(CASES)])
each_dump = pytest.mark.parametrize("path", dumps(), ids=name_of)


def found_in(text: str, settings: LintSettings | None = None) -> tuple[Finding, ...]:
    return lint_module(parse_module(text), settings)


def of_rule(code: str, text: str, settings: LintSettings) -> list[Finding]:
    return [found for found in found_in(text, settings) if found.code == code]


@each_case
def test_a_rule_finds_what_breaks_it_where_it_stands(case: Case) -> None:
    before, start, rest = case.bad.partition("«")
    meant, end, after = rest.partition("»")
    assert start + end == "«»", "the place is marked"
    [found, *_] = of_rule(case.code, before + meant + after, case.settings)
    assert found.span is not None
    at = slice(found.span.start, found.span.end)
    assert (before + meant + after)[at] == meant
    assert found.message


@each_case
def test_a_rule_leaves_alone_what_keeps_it(case: Case) -> None:
    assert not of_rule(case.code, case.good, case.settings)


def test_a_text_that_leaves_things_out_is_not_judged() -> None:
    text, _ = entry("y = f32[5,8] negate(x)", "", X, "z = f32[4,8] add(...)")
    assert [found.code for found in found_in(text)] == ["HLO003"]


def test_layouts_that_are_left_out_are_not_compared() -> None:
    header = ", is_scheduled=true, entry_computation_layout={(f32[4,8]{0,1})->f32[4,8]{0,1}}"
    without, _ = entry("ROOT y = f32[4,8] negate(x)", "", X, header=header)
    assert not found_in(without)
    assert {found.code for found in found_in(without.replace("f32[4,8] ", "f32[4,8]{1,0} "))} == {"HLO070"}


def test_what_is_cut_out_for_other_cores_keeps_the_header_of_the_whole() -> None:
    text, _ = entry("ROOT y = f32[4,8] negate(x)", "", X, header=", entry_computation_layout={()->f32[4,8]{1,0}}")
    assert {found.code for found in found_in(text)} == {"HLO070"}
    assert not found_in(text.replace("HloModule m", "HloModule extracted"))


@each_case
def test_texts_that_keep_a_rule_break_no_other(case: Case) -> None:
    """Not by mistake: what stands beside the instruction in question is well formed."""
    assert not [f.message for f in found_in(case.good, case.settings) if f.code == "HLO001"]


_APART = ("HLO010", "HLO011", "HLO012", "HLO030", "HLO060", "HLO401", "HLO402")
"""Rules of which one alone reports an instruction: shapes, precision, fusions, and async operations."""


@pytest.mark.parametrize("case", [case for case in CASES if case.code in _APART], ids=lambda case: case.code)
def test_one_defect_is_reported_by_one_rule(case: Case) -> None:
    settings = replace(case.settings, select=_APART)
    found = found_in(case.bad.replace("«", "").replace("»", ""), settings)
    assert {each.code for each in found} == {case.code}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("s = (f32[9], f32[4,8], u32[]) copy-start(x)\n  d = f32[9] copy-done(s)", "HLO060"),
        ("s = (f32[4,8], f32[4,8], u32[]) copy-start(x)\n  d = f32[9] copy-done(s)", "HLO060"),
        ("y = f32[9] fusion(x), kind=kLoop, calls=f", "HLO030"),
        ("y = f32[9] negate(x)", "HLO010"),
    ],
)
def test_a_shape_of_two_rules_is_reported_by_the_one_that_knows_more(line: str, code: str) -> None:
    found = found_in(module(X, line, before=NEGATE), LintSettings(_APART))
    assert {each.code for each in found} == {code}


def test_a_fusion_takes_as_many_operands_as_its_body() -> None:
    text = module(X, "y = f32[4,8] fusion(x, x), kind=kLoop, calls=f", before=NEGATE)
    [found] = found_in(text, LintSettings(("HLO031",)))
    assert found.message == "y has 2 operands, but its body f has 1 parameter"


@each_rule
def test_every_rule_has_a_case_and_a_page(rule: Rule) -> None:
    page = rule.page
    assert rule.code in {case.code for case in CASES} | {"HLO002", "HLO901", "HLO902"}
    assert all((page.summary, page.why, page.example, page.fix, page.reference))
    assert len(rule.name) <= 60
    assert rule_of(rule.code.lower()) is rule


@pytest.mark.parametrize("code", CONTEXTS)
def test_the_example_of_a_page_breaks_the_rule(code: str) -> None:
    rule, around = rule_of(code), CONTEXTS[code]
    text = around.text(rule.page.example)
    assert rule.page.example in text.replace("\n}\nENTRY", "}\nENTRY") or "}" in rule.page.example
    assert of_rule(code, text, around.settings), text


def test_every_example_is_tried() -> None:
    """But for those of what is no module: of the text alone, of a file of expectations, and with a part left out."""
    assert {rule.code for rule in RULES} - set(CONTEXTS) == {"HLO002", "HLO023", "HLO024", "HLO901", "HLO902"}


def test_codes_are_given_once() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_what_xlas_parser_rejects() -> None:
    text, well = entry("y = f32[4,8] negate(x), unheard_of=1", "y = f32[4,8] negate(x)", X)
    settings = LintSettings(("HLO002",))
    [found] = lint_module(parse_module(text), settings, rejections=check_strictly(Source("text", text)))
    assert (found.code, found.position and found.position.line) == ("HLO002", 4)
    assert not lint_module(parse_module(well), settings, rejections=check_strictly(Source("text", well)))


@each_dump
def test_no_error_in_what_compilers_write(path: Path) -> None:
    assert [str(found) for found in found_in(dump_text(path)) if found.severity == "error"] == []


def test_a_text_with_errors_is_judged_by_what_is_there() -> None:
    text, _ = entry(
        "y = f32[5,8] negate(x)", "", X, "z = f32[4,8] negate(lost)", "s = (f32[4,8], f32[4,8], u32[]) copy-start(x)"
    )
    assert {found.code for found in found_in(text)} == {"HLO001", "HLO010"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("s = (u32[], f32[4,8], u32[]) async-start(), calls=f\n  d = f32[4,8] async-done(s)", {"HLO060"}),
        ("s = ((f32[4,8])) async-start(x), calls=f\n  d = f32[4,8] async-done(s)", {"HLO060"}),
        ("y = token[] copy(x)", {"HLO010"}),
        ("t = token[] after-all()\n  y = f32[4,8] copy(t)", {"HLO010"}),
        ("s = (token[], f32[4,8], u32[]) copy-start(x)\n  d = token[] copy-done(s)", {"HLO060"}),
        ("y = f32[4,8] collective-permute(x), source_target_pairs={{0,1}}, slice_sizes={{4,8}}", set()),
        ("y = token[] after-all(), sharding={mesh['a'=2], [{'a'}]}", set()),
        ("y = f32[4,8] call(x), to_apply=f, output_to_operand_aliasing={{}: (0, {})}", set()),
    ],
)
def test_shapes_and_operands_of_no_valid_program(lines: str, expected: set[str]) -> None:
    """Rules that read parts of a shape, or operands, may find that there are none."""
    text, _ = entry(lines, "", X, header=", is_scheduled=true", before=NEGATE)
    of_all_sizes = {name: 0 for name, (kind, _) in MEANINGS.items() if kind == "bytes" and name.startswith("min_")}
    settings = replace(LintSettings(("ALL",)), **of_all_sizes)  # type: ignore[arg-type]
    assert expected <= {found.code for found in found_in(text.replace("[4,8]", "[4,8]{1,0}"), settings)}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{ {}: (0, {1}, may-alias) }", "parameter 0 (f32[4,8]{1,0}) has no array at {1}"),
        ("{ {}: (1, {}, may-alias) }", "the entry computation has 1 parameter"),
        ("{ {1}: (0, {}, may-alias) }", "the result has no array at {1}"),
        ("{ {}: (0, {}, may-alias), {}: (0, {}, may-alias) }", "the result is already aliased"),
    ],
)
def test_what_an_alias_refers_to(header: str, expected: str) -> None:
    [found] = found_in(TWO.format(f", input_output_alias={header}", ""))
    assert (found.code, found.message.partition("alias): ")[2]) == ("HLO071", expected)


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        ("f32[4,8], f32[8], f32[4,8])->(f32[4,8])", {"HLO070"}),  # has no second result
        (")->(f32[4,8], f32[4,8])", {"HLO070"}),  # has no parameters
        ("f32[4,8], f32[8], f32[4,8])->(f32[4,8], f32[8,4])", {"HLO070", "HLO071"}),
        ("f32[4,8], f32[8], f32[4,8])->(f32[4,8], f32[4,8])", set()),
    ],
)
def test_aliases_are_compared_with_what_the_header_has(layouts: str, expected: set[str]) -> None:
    header = f", input_output_alias={{ {{1}}: (0, {{}}, must-alias) }}, entry_computation_layout={{({layouts}}}"
    assert {found.code for found in found_in(module(X, V, Z, PAIR, header=header))} == expected


def test_an_alias_is_not_compared_with_a_parameter_of_other_structure() -> None:
    header = ", input_output_alias={ {}: (0, {0}, must-alias) }, entry_computation_layout={(())->f32[4,8]}"
    given = "q = (f32[4,8]) parameter(0)"
    text = module(given, "ROOT y = f32[4,8] get-tuple-element(q), index=0", header=header)
    assert {found.code for found in found_in(text)} == {"HLO070"}


def test_groups_along_a_mesh_of_other_devices() -> None:
    """What cannot be told is not told, and nothing breaks."""
    mesh = "mesh['a'=2,'b'=2], device_ids=(0,1,2) {'a'}"
    before = "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"
    text, _ = entry(f"y = f32[4,8] all-reduce(x), replica_groups={mesh}, to_apply=add", "", X, before=before)
    assert {found.code for found in found_in(text)} <= {"HLO001", "HLO050", "HLO083"}


def test_choosing_rules() -> None:
    assert [rule.code for rule in selected_rules(LintSettings())] == [rule.code for rule in RULES if rule.is_default]
    assert selected_rules(LintSettings(("ALL",), strict=True)) == RULES
    assert [rule.code for rule in RULES if rule not in selected_rules(LintSettings(("ALL",)))] == ["HLO002"]
    assert [rule.code for rule in selected_rules(LintSettings(("HLO09", "HLO062")))] == ["HLO062"]
    assert "HLO101" not in [rule.code for rule in selected_rules(LintSettings(ignore=("HLO10",)))]
    with pytest.raises(HloError, match="unknown rule 'HLO999'"):
        selected_rules(LintSettings(("HLO999",)))


def test_severities_are_set_and_shown() -> None:
    text, _ = entry("y = f32[256,256]{0,1} copy(x)", "", "x = f32[256,256] parameter(0)")
    assert [found.severity for found in found_in(text)] == ["warning"]
    assert [found.severity for found in found_in(text, LintSettings(severity={"HLO102": "error"}))] == ["error"]
    assert not found_in(text, LintSettings(min_severity="error"))


def test_every_setting_says_what_it_is_for() -> None:
    assert MEANINGS.keys() == set(LintSettings.__dataclass_fields__)


def codes_in(meaning: str) -> set[str]:
    """The rules that a setting is for, as its meaning lists them: some, and some from one to another."""
    found: set[str] = set()
    for first, last in re.findall(r"HLO(\d{3})(?:–HLO(\d{3}))?", meaning):
        span = range(int(first), int(last or first) + 1)
        found |= {rule.code for rule in RULES if int(rule.code[3:]) in span}
    return found


@pytest.mark.parametrize(
    "name", [name for name, (kind, meaning) in MEANINGS.items() if kind not in ("codes", "flag") and codes_in(meaning)]
)
def test_the_page_of_a_rule_names_its_settings(name: str) -> None:
    shown = {
        code: "".join(render_screen(report_of_rule(code), Style(width=1000))) for code in codes_in(MEANINGS[name][1])
    }
    assert [code for code, page in shown.items() if name not in page] == []


_BANNED = re.compile(
    r"\b(alive|slots?|flights?|flying|waits for it|nobody|beside|besides|behind|stands|lies|told|tells|says|handed|"
    r"given away|taken apart|worth|mend|odd|exchanges?|colour|neighbours?|behaviour|optimi[s]e|in all|as written)\b"
)
"""Words that texts for users do not contain: see the glossary."""


@each_rule
def test_texts_of_a_rule_are_in_plain_words(rule: Rule) -> None:
    page = rule.page
    assert not _BANNED.search(f"{rule.name} {page.summary} {page.why} {page.fix}")
    assert not rule.name.endswith(".")
    assert rule.name.split()[0][0].islower() or rule.name == "Python callback"
    for prose in (page.summary, page.why, page.fix):
        assert prose[0].isupper() or prose.split()[0].strip(".") in _NAMES_FIRST, prose
        assert prose.endswith((".", ")")), prose
    assert rule.is_default or rule.code in _SPECIAL or "Off by default" in page.why


_NAMES_FIRST = (
    "entry_computation_layout",
    "input_output_alias",
    "buffer_donor",
    "minor_to_major",
    "result_accuracy",
    "bf16",
)
"""Words in lower case that begin the prose of a page: names of XLA's."""
_SPECIAL = ("HLO901", "HLO902")
"""Rules that --expect selects."""


@each_case
def test_findings_are_in_plain_words(case: Case) -> None:
    text = case.bad.replace("«", "").replace("»", "")
    for found in of_rule(case.code, text, case.settings):
        if case.code[:5] not in ("HLO00", "HLO01", "HLO03", "HLO06"):  # messages of other packages
            assert not _BANNED.search(f"{found.message} {found.hint or ''}")
        assert not found.message.endswith(".")
        assert not re.search(r"\bNone\b", f"{found.message} {found.hint or ''}")


@pytest.mark.parametrize("name", [name for name, (kind, _) in MEANINGS.items() if kind in ("bytes", "fraction")])
def test_limits_have_their_direction_in_the_name(name: str) -> None:
    word = "smallest" if name.startswith("min_") else "largest" if "fraction" in name else "limit"
    assert name.startswith(("min_", "max_"))
    assert word in MEANINGS[name][1]


SKIPPED = ', frontend_attributes={xla_skip_custom_call_alias_shape_check="true"}'


@pytest.mark.parametrize(
    ("alias", "shape", "more", "message"),
    [
        ("{}: (0, {})", "f32[4]{0}", "", None),
        ("{}: (0, {})", "f32[2]{0}", "", "the operand is f32[4]{0}, but the result is f32[2]{0}"),
        ("{}: (0, {})", "f32[2]{0}", SKIPPED, None),
        ("{1}: (0, {})", "f32[4]{0}", "", "the result (f32[4]{0}) has no element {1}"),
        ("{}: (1, {})", "f32[4]{0}", "", "the call has 1 operand"),
        ("{}: (0, {0})", "f32[4]{0}", "", "operand 0 (f32[4]{0}) has no element {0}"),
    ],
)
def test_what_a_custom_call_returns_in_the_memory_of_an_operand(
    alias: str, shape: str, more: str, message: str | None
) -> None:
    """As `HandleCustomCall` of xla/service/hlo_verifier.cc asks."""
    called = f'custom-call(x), custom_call_target="f", output_to_operand_aliasing={{{alias}}}{more}'
    text = f"HloModule m  ENTRY e {{ x = f32[4]{{0}} parameter(0)  ROOT v = {shape} {called} }}"
    found = [each.message for each in lint_module(parse_module(text), LintSettings(select=("HLO0",)))]
    assert found == ([f"invalid alias {alias} on v: {message}"] if message else [])


@pytest.mark.parametrize(
    ("written", "read", "more", "is_found"),
    [
        ("f32", "bf16", "", True),
        ("f64", "f32", "", True),
        ("bf16", "f8e5m2", "", False),  # what is narrow is stored as it is computed
        ("f32", "f64", "", False),
        ("f32", "bf16", "d = f16[512,512]{1,0:T(8,128)} convert(a)", False),  # two narrow copies take as much
        ("f32", "bf16", "d = f32[512,512]{1,0:T(8,128)} sine(a)", False),
        ("f32", "bf16", "d = bf16[512,512]{1,0:T(8,128)} bitcast-convert(a)", False),
    ],
)
def test_a_value_is_stored_wide_where_all_readers_convert_it_to_one_narrow_type(
    written: str, read: str, more: str, is_found: bool
) -> None:
    tiled = "[512,512]{1,0:T(8,128)}"
    lines = f"x = {written}{tiled} parameter(0)  a = {written}{tiled} negate(x)  c = {read}{tiled} convert(a)  {more}"
    text = f"HloModule m, is_scheduled=true  ENTRY e {{ {lines} }}"
    assert bool(of_rule("HLO304", text, LintSettings(("HLO304",)))) is is_found


@pytest.mark.parametrize(("rows", "is_found"), [(16 << 11, True), ((16 << 11) + 8, False)])
def test_what_fast_memory_could_hold_is_read_needlessly_in_every_round(rows: int, is_found: bool) -> None:
    """16 MiB, in rows of 128 numbers."""
    text = ROUNDS.format("", "", "y = f32[8,128]{1,0:T(8,128)} add(w, x)", "w, y", "").replace(
        "[8,128]", f"[{rows},128]"
    )
    assert bool(of_rule("HLO209", text, LintSettings(("HLO209",)))) is is_found


def test_a_copy_of_no_argument_is_not_donated() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e { p = f32[512,512]{1,0} parameter(0)  n = f32[512,512]{1,0} negate(p)  c = f32[512,512]{1,0} copy(n)
  ROOT r = (f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(n, c) }"""
    found = [each for each in hlo_cli.lint(hlo_cli.parse_module(text)) if each.code == "HLO204"]
    assert [each.hint for each in found] == ["read the old value before it is updated, or the new one instead"]


def test_fixes_name_no_hint_that_a_finding_may_lack() -> None:
    """A page and a report show the fix of a rule where a finding has no help of its own."""
    assert [rule.code for rule in RULES if re.search(r"\bin the hint|\bthe hint gives", rule.page.fix, re.I)] == []


def test_flags_of_collectives_are_no_promise() -> None:
    """libtpu keeps collectives synchronous with all of these flags set."""
    fix = " ".join(rule_of("HLO403").page.fix.split())
    assert "are asynchronous unless" not in fix
    assert "keeps some synchronous" in fix


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (None, None),
        ({"xla_dump_to": "d"}, None),
        ({"xla_tpu_enable_latency_hiding_scheduler": "true"}, "is on already: the compiler decided against"),
        (
            {"xla_tpu_enable_latency_hiding_scheduler": "true", "xla_enable_async_all_reduce": "DISABLED"},
            "xla_enable_async_all_reduce is off, which rules out an asynchronous form; with it on",
        ),
    ],
)
def test_no_flag_is_advised_that_is_set(flags: Mapping[str, str] | None, words: str | None) -> None:
    text = """HloModule m, is_scheduled=true, num_partitions=4
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[1024,1024]{1,0:T(8,128)} parameter(0)  n = f32[1024,1024]{1,0:T(8,128)} negate(p)
  r = f32[1024,1024]{1,0:T(8,128)} all-reduce(p), replica_groups=[1,4]<=[4], to_apply=sum, channel_id=1,
    use_global_device_ids=true
  ROOT t = (f32[1024,1024]{1,0:T(8,128)}, f32[1024,1024]{1,0:T(8,128)}) tuple(n, r) }"""
    [found] = lint_module(hlo_cli.parse_module(text), LintSettings(("HLO403",)), flags_of=lambda: flags)
    assert found.hint is None if words is None else words in (found.hint or "")
