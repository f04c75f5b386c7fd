"""Reports of `hlo schedule`: every async operation once, and overlapping compute that adds up."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from async_texts import ACCEPTED, BROKEN, EXAMPLES, REJECTED_BY_JAXLIB
from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import KernelCost, inclusive_costs, kernel_costs
from hlo_cli.analysis.dataflow.flat_schedule import is_end, is_start
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.analysis.schedule.async_overlap import (
    SYNCHRONOUS,
    AsyncInterval,
    OverlapAnalysis,
    analyze_overlap,
    async_pairs,
)
from hlo_cli.analysis.schedule.async_verifier import ORPHAN, RULES, verify_async
from hlo_cli.analysis.schedule.step_time import critical_path
from hlo_cli.cli import main
from hlo_cli.ir.instruction import Computation, Instruction
from hlo_cli.ir.module import Module
from hlo_cli.transform.sugar import desugar, sugar
from judge import ask_xla
from versions import needs_older_xla

DUMPS = compiled_dumps()
dumps = pytest.mark.parametrize("dump", DUMPS, ids=str)

_STARTED = re.compile(r"(?m)^ +(?:ROOT )?%\S+ = .*?[)}\]] (?:[a-z-]+-start|send|recv)\(")
_FUSED = 'custom_call_target="AsyncCollectiveStart"'


@cache
def module(dump: Dump) -> Module:
    return parse_module(dump.text)


@cache
def overlap(dump: Dump) -> OverlapAnalysis:
    return analyze_overlap(module(dump))


@dumps
def test_every_start_is_found_and_every_member_is_in_one_pair(dump: Dump) -> None:
    """Witness: the text, searched for starts in every form."""
    found = async_pairs(module(dump))
    assert len(found.pairs) == len(_STARTED.findall(dump.text)) + dump.text.count(_FUSED)
    assert not found.orphans
    members = Counter(member for pair in found.pairs for member in pair.members)
    assert set(members.values()) <= {1}
    assert all(len(pair.dones) == 1 for pair in found.pairs)
    ends = [i for i in module(dump).instructions if is_end(i)]
    assert all(end in members for end in ends)
    assert all(is_start(pair.start) for pair in found.pairs)


@dumps
def test_steps_are_in_order(dump: Dump) -> None:
    found = overlap(dump)
    assert len(found.intervals) + len(found.unexecuted) == len(found.pairs.pairs)
    for interval in found.intervals:
        assert interval.done_step is not None
        assert interval.start_step <= interval.bound_step < interval.done_step
        assert found.sequence[interval.start_step] is interval.pair.start
        assert found.sequence[interval.done_step] is interval.pair.dones[0]
        assert interval.moved_bytes > 0


@dumps
def test_overlap_is_the_compute_between_start_and_done(dump: Dump) -> None:
    """Counted instruction by instruction, for pairs without loops and other async operations between."""
    found = overlap(dump)
    members = {m for pair in found.pairs.pairs for m in pair.members if pair.form != "fusion" or m is pair.start}
    works = kernel_costs(set(found.sequence))
    for interval in found.intervals:
        between = found.sequence[interval.bound_step + 1 : interval.done_step]
        if {instruction.computation for instruction in between} <= {interval.pair.start.computation}:
            done = (works[i] for i in between if i in works and i not in members and i not in interval.pair.dones)
            others = sum(is_end(i) and i.opcode == "fusion" for i in between)
            total = sum(done, KernelCost())
            assert interval.between.kernels == total.kernels - others


@pytest.mark.parametrize("dump", [dump for dump in DUMPS if dump.platform == "gpu"], ids=str)
def test_pairs_without_overlap_are_marked_is_sync_by_the_compiler(dump: Dump) -> None:
    """Witness: is_sync in the backend_config of GPU collectives, for which reading the device id is compute."""
    found = overlap(dump)
    for interval in found.intervals:
        between = {i.opcode for i in found.sequence[interval.start_step : interval.done_step]}
        assert interval.is_sync == (not interval.between.kernels and between.isdisjoint({"partition-id", "replica-id"}))


@dumps
def test_sugar_changes_nothing(dump: Dump) -> None:
    plain, sweet = analyze_overlap(desugar(module(dump))), analyze_overlap(sugar(module(dump)))
    assert list(map(what, plain.intervals)) == list(map(what, sweet.intervals))


@pytest.mark.parametrize("tiling", ["", "{0:T(1024)}"])
def test_a_sugared_call_runs_its_computation_as_the_generic_form_does(tiling: str) -> None:
    """On every target: the values of the called computation have the same live ranges as without sugar."""
    text = """HloModule m, is_scheduled=true
f {
  a = f32[1024] parameter(0)
  b = f32[1024] negate(a)
  c = f32[4096] broadcast(b), dimensions={}
  d = f32[1024] slice(c), slice={[0:1024]}
  ROOT e = f32[1024] add(d, b)
}, execution_thread="sparsecore"
ENTRY main {
  p = f32[1024] parameter(0)
  s = ((f32[1024]), f32[1024], s32[]) call-start(p), async_execution_thread="sparsecore", to_apply=f
  n = f32[1024]LAYOUT sine(p)
  t = f32[1024] call-done(s)
  ROOT r = f32[1024] add(t, n)
}"""
    sweet = parse_module(text.replace("LAYOUT", tiling))
    lives, plain = (
        {str(value): (value.start, value.end, value.offset) for value in memory_analysis(each).values}
        for each in (sweet, desugar(sweet))
    )
    assert lives == plain
    assert {"b", "c", "d", "e"} <= lives.keys()


def what(interval: AsyncInterval) -> tuple[object, ...]:
    names = [member.name for member in interval.pair.members]
    return names, interval.pair.operation, interval.moved_bytes, interval.times, interval.between


@dumps
def test_modules_of_compilers_follow_the_rules(dump: Dump) -> None:
    assert [finding.message for finding in verify_async(module(dump))] == []


@dumps
def test_transfers_are_async_or_synchronous_or_wrapped(dump: Dump) -> None:
    found = overlap(dump)
    wrapped = {pair.wrapped for pair in found.pairs.pairs}
    for instruction in found.sequence:
        if instruction.opcode in SYNCHRONOUS:
            assert (instruction in found.synchronous) != (instruction in wrapped)


def test_infeeds_and_outfeeds_are_synchronous() -> None:
    """The bytes of an infeed's result without its token, and of an outfeed's operand."""
    found = analyze_overlap(parse_module((FIXTURES / "cpu/feeds/after_optimizations.txt").read_text()))
    assert {each.opcode: size for each, size in found.synchronous.items()} == {"infeed": 3641, "outfeed": 3640}


@dumps
def test_the_critical_path_is_a_chain_and_the_longest(dump: Dump) -> None:
    entry = module(dump).entry
    weights = {i: work.bytes for i, work in inclusive_costs(entry.instructions).items()}
    path = critical_path(entry, weights)
    assert path.length == sum(weights[i] for i in path.instructions) == longest(entry, weights)
    assert path.whole == sum(weights.values())


def longest(computation: Computation, weights: dict[Instruction, int]) -> int:
    """By relaxing all dependencies in the order of the text, which in these dumps is a schedule."""
    named = {i.name: i for i in computation.instructions}
    found: dict[Instruction, int] = {}
    for i in computation.instructions:
        before = [*i.operands, *(named[name] for name in i.control_predecessors)]
        found[i] = weights.get(i, 0) + max((found[each] for each in before), default=0)
    return max(found.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_every_form(name: str) -> None:
    text, expected = EXAMPLES[name]
    read = parse_module(text)
    assert not read.errors
    [pair] = async_pairs(read).pairs
    [interval] = analyze_overlap(read).intervals
    assert (pair.operation, pair.form, [m.name for m in pair.members], interval.moved_bytes) == expected
    assert not list(verify_async(read))


@pytest.mark.parametrize("name", ACCEPTED)
def test_valid_modules(name: str) -> None:
    read = parse_module(ACCEPTED[name])
    assert not read.errors
    assert [finding.message for finding in verify_async(read)] == []


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_modules(name: str) -> None:
    text, at, code, message = BROKEN[name]
    read = parse_module(text)
    [finding] = verify_async(read)
    assert finding.span is not None
    assert read.source.slice(finding.span).split(" = ")[0].removeprefix("ROOT ") == at
    assert message in finding.message
    assert finding.code == code


def test_every_rule_is_violated_by_some_text() -> None:
    assert {code for _, _, code, _ in BROKEN.values()} == {*RULES, ORPHAN}
    assert all(inspect.getdoc(rule) for rule in RULES.values())


def test_violations_in_some_releases_only_are_warnings_or_notes() -> None:
    found = {name: next(verify_async(parse_module(text))).severity for name, (text, *_) in BROKEN.items()}
    milder = {name: severity for name, severity in found.items() if severity != "error"}
    assert milder == {
        "a computation in another thread": "warning",
        "a loop carries a start, and nothing waits for it": "note",
        "sends and receives together": "warning",
        "two starts of one computation": "note",
    }


@pytest.mark.oracle
@needs_older_xla("since jaxlib 0.11, the parser checks other rules of async operations")
def test_xla_rejects_violations_that_its_parser_checks() -> None:
    """It reads the others: only its verifier, which jaxlib does not run on text, checks them."""
    answers = dict(zip(BROKEN, ask_xla([text for text, *_ in BROKEN.values()]), strict=True))
    assert {name for name, answer in answers.items() if not answer} == set(REJECTED_BY_JAXLIB)


@pytest.mark.parametrize("option", [["--reorder", "memory"], ["--sugar"], ["--desugar"]], ids=" ".join)
def test_the_extension_of_the_output_file_selects_the_module(option: list[str], tmp_path: Path) -> None:
    source, target = tmp_path / "old.hlo", tmp_path / "new.hlo"
    source.write_text(EXAMPLES["sugar leaves the computation out"][0], encoding="utf-8")
    assert main(["schedule", str(source), *option, "-o", str(target)], standalone=False) == 0
    assert parse_module(target.read_text(encoding="utf-8")).entry.name == "e"
    assert main(["schedule", str(source), *option, "--format", "json", "-o", str(target)], standalone=False) == 0
    assert target.read_text(encoding="utf-8").startswith("{")


@pytest.mark.parametrize("dump", compiled_dumps(), ids=str)
def test_sequence_and_memspace_agree(dump: Dump, capsys: pytest.CaptureFixture[str]) -> None:
    peaks = []
    for command in (["memspace"], ["schedule", "--sequence"]):
        main([command[0], str(dump.path), *command[1:], "--format", "json"], standalone=False)
        peaks.append(json.loads(capsys.readouterr().out)["answer"]["peak_bytes"])
    assert peaks[0] == peaks[1]


SYNCHRONOUS_ONLY = """\
HloModule m, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  p = f32[64]{0} parameter(0)
  q = f32[128]{0} parameter(1)
  small = f32[64]{0} all-reduce(p), replica_groups={{0,1}}, to_apply=add
  large = f32[128]{0} all-reduce(q), replica_groups={{0,1}}, to_apply=add
  ROOT t = (f32[64]{0}, f32[128]{0}) tuple(small, large)
}
"""


def test_the_largest_synchronous_collective_is_named_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(SYNCHRONOUS_ONLY, encoding="utf-8")
    for options in ((), ("--chip", "v5e")):
        assert main(["schedule", str(path), "--format", "screen", *options], standalone=False) == 0
        assert f"hlo parse {path} --explain large" in capsys.readouterr().out.replace("\n      ", " ")


def test_columns_that_were_renamed_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(SYNCHRONOUS_ONLY, encoding="utf-8")
    for option in ("--columns", "--sort"):
        assert main(["schedule", str(path), option, "exposed"], standalone=False) == 2
        assert "help: did you mean 'unoverlapped'?" in capsys.readouterr().err
    assert main(["schedule", str(path), "--columns", "exposed_bytes"], standalone=False) == 2
    assert "help: renamed to unoverlapped_bytes, a column of other tables" in capsys.readouterr().err
