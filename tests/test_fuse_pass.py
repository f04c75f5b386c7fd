"""The fusion pass makes what the CPU compiler makes, says why, and leaves modules that XLA takes and runs the same."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from compiled_programs import SHARE, compiled
from dumps import FIXTURES, Dump, compiled_dumps
from fusion_values import fusions_of, kernels_of
from hlo_cli import cli, parse_module
from hlo_cli.analysis.fusion.cpu_rules import ALL, FusionRules
from hlo_cli.analysis.fusion.fusion_bodies import verify_fusions
from hlo_cli.analysis.fusion.kernels import kernels_of as launched
from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of
from hlo_cli.analysis.fusion.unfused_pairs import unfused_pairs
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion import cpu_fusion
from hlo_cli.transform.fusion.by_request import unfuse
from hlo_cli.transform.fusion.cpu_fusion import FusionResult, Reachability, fuse
from in_process import run
from judge import ask_xla
from running import same_results
from versions import needs_older_xla

PAIRS = sorted(path.name for path in (FIXTURES / "fusion").iterdir())
STAGES = ("before_fusion", "after_fusion", "after_fusion_wrapper")
DUMPS = compiled_dumps()
pairs = pytest.mark.parametrize("name", PAIRS)
dumps = pytest.mark.parametrize("dump", DUMPS, ids=str)

ALONE = FusionRules(wrap=False)


def text_of(name: str, stage: str) -> str:
    return (FIXTURES / "fusion" / name / f"{stage}.txt").read_text()


@cache
def before(name: str) -> Module:
    return parse_module(text_of(name, "before_fusion"))


@cache
def unfused(dump: Dump) -> Module:
    return unfuse(parse_module(dump.text))


@cache
def fused_again(dump: Dump) -> FusionResult:
    return fuse(unfused(dump))


def assert_same_fusions(given: str, after: str, wrapped: str) -> None:
    module = parse_module(given)
    alone, whole = fuse(module, ALONE).module, fuse(module).module
    assert fusions_of(alone) == fusions_of(parse_module(after))
    assert kernels_of(alone) == kernels_of(parse_module(after))
    assert kernels_of(whole) == kernels_of(parse_module(wrapped))


@pairs
def test_fusions_are_those_that_the_compiler_made(name: str) -> None:
    given, after, wrapped = (text_of(name, stage) for stage in STAGES)
    assert_same_fusions(given, after, wrapped)


@pairs
def test_names_are_those_that_the_compiler_gave(name: str) -> None:
    theirs = parse_module(text_of(name, "after_fusion_wrapper"))
    ours = fuse(before(name)).module
    names = [sorted(i.name for i in each.instructions if i.opcode == "fusion") for each in (ours, theirs)]
    assert names[0] == names[1]


@pairs
def test_each_pair_that_stays_apart_has_a_rule_that_says_so(name: str) -> None:
    fused = fuse(before(name), ALONE)
    assert all(decision.rule.fuses for decision in fused.fused)
    assert not any(decision.rule.fuses for decision in fused.rejected)
    given = set(before(name).instructions)
    assert {i for d in (*fused.fused, *fused.rejected) for i in (d.producer, d.consumer)} <= given
    assert all(decision.producer.name in decision.words or "{" not in decision.words for decision in fused.rejected)


def test_rules_have_names_and_words_of_their_own() -> None:
    assert len({rule.name for rule in ALL}) == len({rule.template for rule in ALL}) == len(ALL)
    for rule in ALL:
        words = rule.explain("FIRST", "SECOND")
        assert ("FIRST" in words) == ("{producer}" in rule.template)
        assert "{" not in words


@pairs
def test_without_copies_every_operation_stands_once(name: str) -> None:
    module = before(name)
    made = fuse(module, FusionRules(may_duplicate=False, wrap=False)).module
    again = [i for i in made.instructions if i.opcode in ("tanh", "exponential", "reduce", "add", "negate", "slice")]
    given = [i for i in module.instructions if i.opcode in ("tanh", "exponential", "reduce", "add", "negate", "slice")]
    assert len(again) == len(given)


def test_switches_change_what_they_say() -> None:
    softmax = parse_module(text_of("dear", "before_fusion").replace("add(%p.1, %q.1)", "negate(%p.1)"))
    guarded = fuse(softmax, FusionRules(guard_softmax=True)).module
    assert kernels_of(guarded) != kernels_of(fuse(softmax).module)
    lone = parse_module("ENTRY e { p = f32[4,9] parameter(0)  ROOT t = f32[9,4] transpose(p), dimensions={1,0} }")
    assert fuse(lone).module.entry.root is not None
    roots = [fuse(lone, rules).module.entry.root for rules in (FusionRules(), FusionRules(wrap_transpose=True))]
    assert [root.opcode for root in roots if root is not None] == ["transpose", "fusion"]


@dumps
def test_fused_modules_obey_the_rules_for_fusions(dump: Dump) -> None:
    allowed = {(d.code, d.severity) for d in verify_fusions(parse_module(dump.text))}
    for made in (unfused(dump), fused_again(dump).module):
        read = parse_module(str(made))
        assert str(read) == str(made)
        assert not read.errors
        assert {(d.code, d.severity) for d in verify_fusions(read)} <= allowed


@dumps
def test_all_stands_before_what_takes_it(dump: Dump) -> None:
    for made in (unfused(dump), fused_again(dump).module):
        for instruction in made.instructions:
            assert all(operand.index < instruction.index for operand in instruction.operands)


@pytest.mark.parametrize("dump", [dump for dump in DUMPS if dump.platform == "cpu"], ids=str)
def test_fusing_anew_makes_no_more_kernels(dump: Dump) -> None:
    assert len(launched(fused_again(dump).module)) <= len(launched(parse_module(dump.text)))


@pairs
def test_nothing_is_left_to_fuse_behind_the_compiler(name: str) -> None:
    left = unfused_pairs(parse_module(text_of(name, "after_fusion_wrapper")))
    assert left
    assert not [pair for pair in left if pair.rule.fuses]


@pairs
def test_before_fusion_something_is_left_to_fuse(name: str) -> None:
    assert any(pair.rule.fuses for pair in unfused_pairs(before(name)))


def test_async_operations_are_in_no_pair() -> None:
    """Starts and dones run beside kernels: no compiler could fuse them."""
    module = parse_module((FIXTURES / "tpu" / "v5e_offload" / "after_optimizations.txt").read_text())
    pairs = [(pair.producer.opcode, pair.consumer.opcode) for pair in unfused_pairs(module)]
    assert pairs
    assert not [pair for pair in pairs if any(opcode.endswith(("-start", "-done")) for opcode in pair)]


@pytest.mark.oracle
def test_xla_takes_what_was_fused_and_unfused() -> None:
    taken = ask_xla([dump.text for dump in DUMPS])
    good = [dump for dump, is_taken in zip(DUMPS, taken, strict=True) if is_taken]
    texts = [str(made) for dump in good for made in (unfused(dump), fused_again(dump).module)]
    assert len(texts) > 40
    assert ask_xla(texts) == [True] * len(texts)


@pytest.mark.oracle
@pytest.mark.slow
@needs_older_xla("since jaxlib 0.11, XLA:CPU fuses by other rules, which are not modeled")
def test_random_programs_are_fused_as_the_compiler_fuses_them() -> None:
    for given, after, wrapped, _ in compiled(20):
        assert_same_fusions(given, after, wrapped)


@pytest.mark.oracle
@pytest.mark.slow
def test_scheduled_modules_compute_the_same() -> None:
    """Compiled modules, in whose schedules memory is shared, taken apart and fused anew; test_fuse_several has others."""
    groups = []
    for *_, last in compiled(20)[SHARE:]:
        apart = unfuse(parse_module(last))
        groups.append([last, str(apart), str(fuse(apart).module)])
    assert same_results(groups, exactly=False) == [[True, True]] * len(groups)


def test_pairs_say_which_compiler_made_them() -> None:
    for name in PAIRS:
        truth = json.loads(Path(FIXTURES / "fusion" / name / "truth.json").read_text())
        assert truth["versions"]["jaxlib"] == "0.10.2"


@pytest.mark.parametrize("seed", range(6))
def test_nodes_are_connected_as_in_the_graph_whose_merged_nodes_are_one(seed: int) -> None:
    random, count = Random(seed), 12
    operands = {number: random.sample(range(number), min(number, 2)) for number in range(1, count)}
    lines = [f"n{each} = s8[] add({', '.join(f'n{n}' for n in (of * 2)[:2])})" for each, of in operands.items()]
    graph = mutable_graph_of(parse_module(f"ENTRY e {{ n0 = s8[] parameter(0)  {'  '.join(lines)} }}").entry)
    nodes = {node.name: node for node in graph.nodes}
    reachability = Reachability(graph.sorted_nodes(), graph.dependencies, lambda node: True)
    one = {number: number for number in range(count)}  # what a number has become

    def depends(user: int, on: int) -> bool:
        waiting, seen = [one[user]], set[int]()
        while waiting:
            each = waiting.pop()
            new = {one[n] for k in range(1, count) if one[k] == each for n in operands[k]} - seen
            seen |= new
            waiting += new
        return one[on] in seen

    gone: set[int] = set()
    for _ in range(4):
        alive = sorted(set(range(count)) - gone)
        pairs = [(a, b) for a in alive for b in alive if a < b]
        free = [pair for pair in pairs if not depends(*pair) and not depends(*reversed(pair))]
        for a, b in pairs:
            assert reachability.are_connected(nodes[f"n{a}"], nodes[f"n{b}"]) is ((a, b) not in free)
        if not free:
            break
        first, second = random.choice(free)
        reachability.merge(nodes[f"n{first}"], nodes[f"n{second}"], [nodes[f"n{each}"] for each in gone])
        one = {number: first if to == second else to for number, to in one.items()}
        gone.add(second)


@pytest.mark.parametrize(
    ("largest", "of", "is_guarded"),
    [("maximum", "a", True), ("add", "a", False), ("maximum", "b", False), ("maximum", "", False)],
)
def test_newer_releases_keep_what_a_softmax_reads_twice(largest: str, of: str, is_guarded: bool) -> None:
    """What feeds both the maximum and its subtraction; else everything is one kernel, which computes it again."""
    reduced = f"reduce({of}, z), dimensions={{0}}, to_apply=m" if of else "slice(v), slice={[0:1]}"
    shape = "f32[]" if of else "f32[1]"
    spread = "broadcast(r), dimensions={}" if of else "broadcast(s), dimensions={}"
    text = f"""HloModule m
    m {{ i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] {largest}(i, j) }}
    ENTRY e {{ p = f32[64] parameter(0)  z = f32[] constant(0)  v = f32[64] parameter(1)
      a = f32[64] negate(p)  b = f32[64] sine(p)  r = {shape} {reduced}  {"" if of else "s = f32[] reshape(r)  "}w = f32[64] {spread}
      d = f32[64] subtract(a, w)  ROOT x = f32[64] exponential(d) }}"""
    kept = fuse(parse_module(text), replace(ALONE, guard_softmax=True)).module
    assert ("a" in {each.name for each in kept.entry.instructions}) is is_guarded


def test_a_pass_that_takes_too_many_steps_is_ended_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [f"v{k} = f32[64] negate({f'v{k - 1}' if k else 'p'})" for k in range(30)]
    text = "\n".join(["p = f32[64] parameter(0)", *lines, "ROOT r = f32[64] copy(v29)"])
    path = tmp_path / "chain.hlo"
    path.write_text(f"HloModule m\nENTRY e {{\n{text}\n}}", encoding="utf-8")
    whole = cpu_fusion.fuse(parse_module(path.read_text()))
    assert not whole.undecided
    monkeypatch.setattr(cpu_fusion, "MAX_STEPS", 20)
    part = cpu_fusion.fuse(parse_module(path.read_text()))
    names = [(each.producer.name, each.consumer.name) for each in whole.fused]
    assert [(each.producer.name, each.consumer.name) for each in part.fused] == names[:20]
    assert part.undecided == ("e",)
    output, _, _ = run(["fuse", str(path), "--run-pass", "--json"], folder=tmp_path, settings={})
    assert json.loads(output)["answer"]["undecided_computations"] == ["e"]
    assert "fusion of e is not decided within " in output
    output, _, _ = run(["schedule", str(path), "--chip", "v5e", "--json"], folder=tmp_path, settings={})
    assert json.loads(output)["answer"], "a time is predicted of the module as it is"


def test_a_pass_of_a_gpu_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.hlo").write_text("ENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }")
    arguments = ["fuse", str(tmp_path / "m.hlo"), "--run-pass", "--pass", "splitk-rewriter"]
    assert cli.main(arguments, standalone=False) == 2
    assert "add --chip GPU" in capsys.readouterr().err
    assert cli.main([*arguments, "--chip", "h100"], standalone=False) == 0
