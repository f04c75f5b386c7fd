"""`hlo lint`: exit codes, settings and where they come from, baselines, and the formats that other programs read."""

from __future__ import annotations

import json
import re
from io import BytesIO, TextIOWrapper
from pathlib import Path
from random import Random
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import in_process
import sarif_shape
from hlo_cli import parse_module
from hlo_cli.cli import main
from hlo_cli.lint.finding_facts import value_of
from hlo_cli.lint.run import RULES, lint_module
from lint_cases import CASES
from strategies import dump_text, dumps, name_of

WRONG = Path(__file__).parent.parent / "fixtures" / "golden" / "lint" / "wrong.hlo"
CODES = ["HLO071", "HLO010", "HLO050", "HLO060", "HLO010", "HLO102"]
"""Errors come first, in the order of the text."""
BY_PLACE = ["HLO071", "HLO010", "HLO050", "HLO102", "HLO060", "HLO010"]
PLACE = re.compile(r"(?P<path>.+):(?P<line>\d+):(?P<column>\d+): (?P<code>HLO\d+) (?P<severity>\w+) (?P<message>.+)")
"""What editors take a line of the concise format apart with."""

_NAMES = re.compile(r'"[^"]*"|%[\w.\-]+')
"""Names, and strings, which may hold them."""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings above it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint(*arguments: object) -> int:
    return main(["lint", *map(str, arguments)], standalone=False)


def concise(capsys: Capture, *arguments: object) -> list[re.Match[str]]:
    """The lines of the concise format, taken apart."""
    lint(*arguments, "--format", "concise")
    matches = [PLACE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    return [match for match in matches if match is not None]


def test_exit_codes(capsys: Capture, tmp_path: Path) -> None:
    well = tmp_path / "well.hlo"
    well.write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    assert lint(well) == 0
    assert lint(WRONG) == 1
    assert lint(WRONG, "--exit-zero") == 0
    assert lint(WRONG, "--select", "HLO08") == 0
    assert lint(tmp_path / "lost.hlo", "--exit-zero") == 2
    capsys.readouterr()


def test_one_bad_file_does_not_stop_the_rest(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bad.hlo").write_text("HloModule m\nENTRY e {\n}\n")
    assert lint(tmp_path / "bad.hlo", WRONG, "--format", "concise") == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(CODES)
    assert "bad.hlo" in captured.err


def test_a_pipe_gets_a_line_a_finding(capsys: Capture) -> None:
    lint(WRONG)
    matches = [PLACE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    assert [match and match["code"] for match in matches] == CODES


@pytest.mark.parametrize("name", ["concise", "jsonl"])
def test_findings_are_in_order_of_cost_or_of_place(name: str, capsys: Capture) -> None:
    for order, codes in (("cost", CODES), ("place", BY_PLACE)):
        lint(WRONG, "--format", name, "--sort", order)
        lines = capsys.readouterr().out.splitlines()
        assert [re.findall(r"HLO\d+", line)[0] for line in lines] == codes


def test_rules_are_chosen(capsys: Capture) -> None:
    def found(*arguments: str) -> list[str]:
        return [match["code"] for match in concise(capsys, WRONG, *arguments)]

    assert found("--select", "HLO05,hlo102") == ["HLO050", "HLO102"]
    assert found("--select", "HLO05", "--select", "HLO102") == ["HLO050", "HLO102"]
    assert found("--ignore", "HLO0") == ["HLO102"]
    assert found("--min-severity", "error") == [code for code in CODES if code != "HLO102"]
    assert found("--set", "min_copy_bytes=1MiB", "--select", "HLO1") == []
    assert "HLO015" not in found("--select", "ALL")


def test_strictly_what_xlas_parser_rejects_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0), unheard_of=1 }\n")
    assert not concise(capsys, path, "--select", "ALL")
    for wish in (("--strict",), ("--select", "HLO002"), ("--set", "strict=true")):
        assert [(m["code"], m["line"], m["column"]) for m in concise(capsys, path, *wish)] == [("HLO002", "2", "41")]


@pytest.mark.parametrize("file", ["hlo.toml", "pyproject.toml"])
def test_the_nearest_settings_win(file: str, elsewhere: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "tool.hlo." if file == "pyproject.toml" else ""
    (elsewhere / file).write_text(f'[{head}lint]\nselect = ["HLO1"]\n[{head}lint.severity]\nHLO102 = "error"\n')
    inner = elsewhere / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    (inner / "pyproject.toml").write_text("[tool.other]\nselect = 1\n")
    assert [(m["code"], m["severity"]) for m in concise(capsys, WRONG)] == [("HLO102", "error")]
    assert len(concise(capsys, WRONG, "--isolated")) == len(CODES)
    assert [m["code"] for m in concise(capsys, WRONG, "--select", "HLO05")] == ["HLO050"]
    (inner / "hlo.toml").write_text('[lint]\nselect = ["HLO07"]\n')
    assert [m["code"] for m in concise(capsys, WRONG)] == ["HLO071"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lint\n", "hlo.toml"),
        ("[lint]\nmin_pading_bytes = 1\n", "hlo.toml: unknown setting 'min_pading_bytes'"),
        ("[lint]\nmin_pading_bytes = 1\n", "help: did you mean 'min_padding_bytes'?"),
        ("[lint]\nzzz = 1\n", "help: run `hlo lint --show-settings` to list all settings"),
        ("[lint]\nselect = 1\n", "select: expected a list of rule codes, such as HLO101, found 1"),
        ("[lint]\nmin_padding_bytes = true\n", "min_padding_bytes: expected a size, such as 64KiB, found true"),
        (
            "[lint]\nlayout_sensitive = 'sometimes'\n",
            "layout_sensitive: expected one of auto, always, or never, found 'sometimes'",
        ),
        ("[lint]\nreplica_count = 0\n", "replica_count: expected a positive integer, found 0"),
        ("[lint.severity]\nHLO101 = 'fatal'\n", "severity: expected a table of rule codes"),
        ("[lint.severity]\nHLO999 = 'note'\n", "unknown rule 'HLO999'"),
        ("[rules]\n", "unknown section 'rules'"),
    ],
)
def test_wrong_settings_are_told(text: str, message: str, elsewhere: Path, capsys: Capture) -> None:
    (elsewhere / "hlo.toml").write_text(text)
    assert lint(WRONG) == 2
    assert message in capsys.readouterr().err


def test_settings_are_shown_with_where_they_come_from(elsewhere: Path, capsys: Capture) -> None:
    (elsewhere / "hlo.toml").write_text('[lint]\nmin_padding_bytes = "1MiB"\nmax_padding_fraction = 0.25\n')
    lint("--show-settings", "--set", "max_padding_fraction=40%", "--ignore", "HLO102", "--format", "json")
    rows = json.loads(capsys.readouterr().out)["tables"]["settings"]["rows"]
    shown = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert shown["min_padding_bytes"] == (1 << 20, "hlo.toml")
    assert shown["max_padding_fraction"] == (0.4, "--set")
    assert shown["ignore"] == ("HLO102", "command line")
    assert shown["min_copy_bytes"] == (65536, "default")


def test_counts_that_the_header_does_not_say(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(WRONG.read_text().replace("replica_count=4, ", "").replace("{1,2}}", "{2,3}}"))
    assert not concise(capsys, path, "--select", "HLO050")
    assert concise(capsys, path, "--select", "HLO050", "--set", "replica_count=8")


def test_a_baseline_knows_what_was_there(tmp_path: Path, capsys: Capture) -> None:
    baseline, changed = tmp_path / "known.json", tmp_path / "changed.hlo"
    assert lint(WRONG, "--write-baseline", baseline) == 0
    assert lint(WRONG, "--baseline", baseline) == 0
    capsys.readouterr()
    text = WRONG.read_text().replace("summed", "sum.12").replace("turned", "copy.3").replace("ENTRY", "\n\nENTRY")
    changed.write_text(text)
    assert not concise(capsys, changed, "--baseline", baseline)
    changed.write_text(text.replace("  ROOT cut", "  again = f32[8192,4]{0,1} copy(sum.12)\n  ROOT cut"))
    assert [m["message"] for m in concise(capsys, changed, "--baseline", baseline)] == [
        "sum.12 (f32[8192,4], 128 KiB) is copied to change the dimension order from {1,0} to {0,1}"
    ]


def test_a_baseline_has_no_assertions(elsewhere: Path, capsys: Capture) -> None:
    """Those of the settings are not recorded, and so they fail with it as they do without."""
    (elsewhere / "hlo.toml").write_text('[lint]\nexpect = "never.toml"\n')
    (elsewhere / "never.toml").write_text('expect = ["none(opcode == parameter)"]\n')
    (elsewhere / "m.hlo").write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    assert lint("m.hlo") == 1
    assert lint("m.hlo", "--write-baseline", "known.json") == 0
    assert "none(" not in (elsewhere / "known.json").read_text()
    assert lint("m.hlo", "--baseline", "known.json") == 1
    capsys.readouterr()


def test_a_baseline_may_stand_in_the_settings(
    elsewhere: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint(WRONG, "--write-baseline", "known.json")
    (elsewhere / "hlo.toml").write_text('[lint]\nbaseline = "known.json"\n')
    inner = elsewhere / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert lint(WRONG) == 0
    assert lint(WRONG, "--isolated") == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"schema": "hlo.lint-baseline/1", "findings": [3]}', '{"findings": []}']
)
def test_what_is_no_baseline_is_told(content: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "known.json").write_text(content)
    assert lint(WRONG, "--baseline", tmp_path / "known.json") == 2
    assert "known.json" in capsys.readouterr().err


@pytest.mark.parametrize("path", [path for path in dumps() if "v5e" in name_of(path)], ids=name_of)
def test_fingerprints_outlive_names_and_numbers(path: Path) -> None:
    text, random = dump_text(path), Random(1)
    names = {f"%{instruction.name}" for instruction in parse_module(text).instructions}
    new = {name: f"{name.rstrip('.0123456789')}.{random.randrange(10**9)}" for name in sorted(names)}
    other = _NAMES.sub(lambda found: new.get(found[0], found[0]), text)
    assert other != text
    first, second = (sorted(found.fingerprint for found in lint_module(parse_module(each))) for each in (text, other))
    assert first == second


@pytest.mark.parametrize(("opcode", "maker"), [("copy", "p"), ("negate", "s")])
def test_a_value_comes_through_asynchronous_moves_alone(opcode: str, maker: str) -> None:
    module = parse_module(
        f"""HloModule m
        moved {{ a = f32[4] parameter(0)  ROOT b = f32[4] {opcode}(a) }}
        ENTRY e {{ p = f32[4] parameter(0)  s = ((f32[4]), f32[4], u32[]) async-start(p), calls=moved
          ROOT d = f32[4] async-done(s) }}"""
    )
    assert value_of(module.instruction("d")).name == maker


def test_fingerprints_tell_findings_apart() -> None:
    texts = {case.bad.replace("«", "").replace("»", "") for case in CASES}
    found = {(each.code, each.message): each.fingerprint for text in texts for each in lint_module(parse_module(text))}
    assert len(set(found.values())) > 0.8 * len(found)


def test_sarif(capsys: Capture) -> None:
    """The rules are those that ran, the places those of the concise format."""
    lint(WRONG, "--format", "sarif")
    run = sarif_shape.checked(capsys.readouterr().out)
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) == sum(rule.is_default for rule in RULES)
    assert all(rule["help"]["text"] for rule in rules)
    lines = concise(capsys, WRONG)
    for result, line in zip(run["results"], lines, strict=True):
        assert result["ruleId"] == line["code"]
        assert result["message"]["text"].startswith(line["message"])
        physical = result["locations"][0]["physicalLocation"]
        region = physical["region"]
        assert (region["startLine"], region["startColumn"]) == (int(line["line"]), int(line["column"]))
        assert physical["artifactLocation"]["uri"] == f"file://{WRONG}"


def test_sarif_is_well_formed_whatever_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Odd names, texts with errors, findings without a place, expectations, what cannot be read, and all rules."""
    monkeypatch.chdir(tmp_path)
    names = ["a b.hlo", "a%20b#c?d.hlo", "ä:é.hlo", '"<&\x1b.hlo']
    for name in names:
        Path(name).write_text(WRONG.read_text())
    Path("half.hlo").write_text("HloModule m\nENTRY e { ROOT p = f32[2] negate(q) }\n")
    Path("binary.hlo").write_bytes(bytes(range(256)))
    Path("expect.toml").write_text('max_peak.hbm = "1GiB"\nexpect = ["exists(opcode == dot)"]\n')
    given = [*names, "half.hlo", "binary.hlo", "gone.hlo", "--expect", "expect.toml", "--select", "ALL"]
    assert lint(*given, "--format", "sarif") == 2
    run = sarif_shape.checked(capsys.readouterr().out)
    uris = {
        place["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"] for place in each["locations"]
    }
    assert {unquote(uri, errors="surrogateescape") for uri in uris} == {*names, "half.hlo"}
    assert {each["ruleId"] for each in run["results"]} >= {"HLO901", "HLO001", *CODES}
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 2


@pytest.mark.parametrize("path", dumps(), ids=name_of)
def test_sarif_of_real_dumps(path: Path, capsys: Capture) -> None:
    lint(path, "--select", "ALL", "--set", "chip=v5e", "--format", "sarif")
    sarif_shape.checked(capsys.readouterr().out)


def test_a_file_name_asks_for_sarif(tmp_path: Path) -> None:
    lint(WRONG, "-o", tmp_path / "found.sarif")
    assert json.loads((tmp_path / "found.sarif").read_text())["version"] == "2.1.0"


def test_junit(capsys: Capture) -> None:
    lint(WRONG, "--format", "junit")
    suites = ElementTree.fromstring(capsys.readouterr().out)
    assert (suites.get("tests"), suites.get("failures")) == ("6", "6")
    failures = suites.findall("./testsuite/testcase/failure")
    assert [(failure.get("type") or "").split()[1] for failure in failures] == CODES
    assert all(f"{WRONG.name}:" in (failure.text or "") for failure in failures)


def test_standard_input_has_one_name(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Whether findings are told of it, or that it cannot be read."""
    for text, place in ((WRONG.read_bytes(), "file=<stdin>,line="), (b"", "file=<stdin>::")):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text)))
        lint("-", "--format", "github")
        told = capsys.readouterr().out.splitlines()
        assert told
        assert all(place in line for line in told)


def test_what_cannot_be_read_is_told_in_every_format_of_a_server(tmp_path: Path, capsys: Capture) -> None:
    """A dump that is broken beyond reading is no case that passes, and keeps no other from being looked through."""
    broken = tmp_path / "broken.hlo"
    broken.write_bytes(bytes(range(256)) * 9)
    assert lint(WRONG, broken, "--format", "junit") == 2
    suites = ElementTree.fromstring(capsys.readouterr().out)
    assert [suites.get(name) for name in ("tests", "failures", "errors")] == ["7", "6", "1"]
    [case] = (case for case in suites.iter("testcase") if case.find("error") is not None)
    assert (case.get("classname"), case.get("name")) == (str(broken), "unreadable")
    assert lint(WRONG, broken, "--format", "github") == 2
    *commands, last = capsys.readouterr().out.splitlines()
    assert len(commands) == len(CODES)
    assert last.startswith(f"::error title=unreadable,file={broken}::")
    assert lint(WRONG, broken, "--format", "gitlab") == 2
    *issues, last = json.loads(capsys.readouterr().out)
    assert (len(issues), last["severity"], last["location"]["path"]) == (len(CODES), "blocker", str(broken))
    assert last["fingerprint"] not in {issue["fingerprint"] for issue in issues}
    for inputs, is_whole in (((WRONG, broken), False), ((WRONG,), True)):
        lint(*inputs, "--format", "sarif")
        run = json.loads(capsys.readouterr().out)["runs"][0]
        assert len(run["results"]) == len(CODES)
        assert run["invocations"][0]["executionSuccessful"] == is_whole
        told = run["invocations"][0].get("toolExecutionNotifications", ())
        uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in told]
        assert uris == [] if is_whole else [f"file://{broken}"]


@pytest.mark.parametrize("format_", ["github", "gitlab", "junit", "sarif"])
@pytest.mark.parametrize("arguments", [("empty",), ("empty", WRONG), (WRONG, "--hlep"), ("--module", "no", WRONG)])
def test_a_server_is_told_that_nothing_was_done(
    format_: str, arguments: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert main(["lint", *map(str, arguments), "--format", format_], standalone=False) == 2
    out, err = capsys.readouterr()
    message = err.splitlines()[0].removeprefix("error: ")
    match format_:
        case "github":
            assert out.startswith(f"::error title=not checked::{message}")
        case "gitlab":
            assert [issue["severity"] for issue in json.loads(out)] == ["blocker"]
        case "junit":
            assert [each.get("message") for each in ElementTree.fromstring(out).iter("error")] == [message]
        case "sarif":
            [invocation] = json.loads(out)["runs"][0]["invocations"]
            assert not invocation["executionSuccessful"]
            assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith(message)


@pytest.mark.parametrize("format_", ["table", "screen", "md", "html", "summary", "full", "json"])
def test_an_answer_says_that_something_cannot_be_read(format_: str, tmp_path: Path, capsys: Capture) -> None:
    lint(WRONG, tmp_path / "gone.hlo", "--format", format_)
    said = '"unread_inputs": 1' if format_ == "json" else "1 input unreadable"
    assert (said in " ".join(capsys.readouterr().out.split())) is (format_ != "table")


def test_junit_has_a_case_for_every_expectation(tmp_path: Path, capsys: Capture) -> None:
    """Under one name, be it met or not; what nobody can tell of a module is skipped."""
    stated = tmp_path / "expect.toml"
    stated.write_text('max_peak.hbm = "1GiB"\nexpect = ["none(opcode == copy)", "count(opcode == add) <= 9"]\n')
    well = tmp_path / "well.hlo"
    well.write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    assert lint(WRONG, well, "--expect", stated, "--select", "HLO9", "--format", "junit") == 1
    suites = ElementTree.fromstring(capsys.readouterr().out)
    outcomes = {
        str(suite.get("name")): {str(case.get("name")): [part.tag for part in case] for case in suite}
        for suite in suites
    }
    first: dict[str, list[str]] = {"assertion: none(opcode == copy)": [], "assertion: count(opcode == add) <= 9": []}
    both = {**first, "assertion: max_peak.hbm <= 1GiB": ["skipped"]}
    assert outcomes[str(well)] == {"no findings": [], **both}
    assert outcomes[str(WRONG)] == {**both, "assertion: none(opcode == copy)": ["failure"]}
    for suite in suites:
        counted = [len(list(suite)), len(list(suite.iter("failure"))), len(list(suite.iter("skipped")))]
        assert [int(suite.get(name) or 0) for name in ("tests", "failures", "skipped")] == counted
    assert suites.get("tests") == str(len(list(suites.iter("testcase"))))


def test_notes_are_no_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """What does not fail the command does not fail a case of JUnit either."""
    monkeypatch.chdir(tmp_path)
    lines = (f'{code} = "note"' for code in sorted(set(CODES)))
    Path("hlo.toml").write_text("\n".join(("[lint.severity]", *lines)))
    assert lint(WRONG, "--format", "junit") == 0
    suites = ElementTree.fromstring(capsys.readouterr().out)
    assert (suites.get("tests"), suites.get("failures")) == ("6", "0")


def test_names_that_would_break_a_format(tmp_path: Path, capsys: Capture) -> None:
    """Colons, commas, quotes, angle brackets, control characters: from paths and from the dump."""
    path = tmp_path / 'a,b:"<&\x1b.hlo'
    path.write_text(WRONG.read_text())
    lint(path, "--format", "junit")
    suites = ElementTree.fromstring(capsys.readouterr().out)
    assert suites[0].get("name", "").endswith('a,b:"<&\\x1b.hlo')
    lint(path, "--format", "github")
    commands = capsys.readouterr().out.splitlines()
    assert len(commands) == len(CODES)
    assert all(re.fullmatch(r"::(error|warning) title=[^:,]+,file=[^:,]+(,\w+=\d+)+::.+", line) for line in commands)
    for kind in ("concise", "full"):
        lint(path, "--format", kind)
        assert "\x1b" not in capsys.readouterr().out
    lint(path, "--format", "gitlab")
    issues = json.loads(capsys.readouterr().out)
    assert {issue["location"]["path"] for issue in issues} == {str(path)}
    assert len({issue["fingerprint"] for issue in issues}) == len(CODES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_page_is_shown(rule: object, capsys: Capture) -> None:
    code = getattr(rule, "code", "")
    assert lint("--explain", code, "--format", "screen") == 0
    page = capsys.readouterr().out
    assert page.startswith(f"{code}: ")
    assert all(word in page for word in ("Why:", "How to fix:", "Reference:"))
    assert lint("--explain", code) == 0
    assert "".join(capsys.readouterr().out.split()) == "".join(page.split()), "a pipe gets the same words"
    assert max(map(len, page.splitlines())) <= 80


def test_a_proto_has_findings_without_places(tmp_path: Path, capsys: Capture) -> None:
    from hlo_cli import module_to_bytes

    path = tmp_path / "wrong.pb"
    path.write_bytes(module_to_bytes(parse_module(WRONG.read_text())))
    lint(path, "--format", "jsonl")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row["code"] for row in rows) == sorted(CODES)
    assert all(row["line"] is None for row in rows)
    assert {row["instruction"] for row in rows} >= {"longer", "summed", "turned", "cut"}


def test_a_pipe_is_told_that_nothing_is_new(tmp_path: Path) -> None:
    """Lines of findings are all that a pipe gets; without any, the answer is a note, and no finding is hidden by it."""
    text = "HloModule m\n\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT n = f32[2] frobnicate(p)\n}\n"
    (tmp_path / "m.hlo").write_text(text)
    lint = ["lint", "m.hlo", "--select", "HLO004"]
    in_process.run([*lint, "--write-baseline", "known.json"], folder=tmp_path, settings={})
    for format_name in ("table", "github"):
        asked = [*lint, "--baseline", "known.json", "--format", format_name]
        out, err, code = in_process.run(asked, folder=tmp_path, settings={})
        assert (out, code) == ("", 0)
        assert "note: no new findings: checked 2 instructions with 1 rule; 1 baseline finding hidden" in err
    _, err, code = in_process.run(lint, folder=tmp_path, settings={})
    assert code == 1
    assert "no new findings" not in err
