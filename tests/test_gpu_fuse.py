"""XLA:GPU's fusion passes running alone: the same fusions as XLA's, from ids exactly, from text but for marked ties."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from gpu_fusion_dumps import HOME, Kernel, Program, kernels_of, named_kernels, programs
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_kernels import gpu_kernels
from hlo_cli.analysis.fusion.gpu_model import LAUNCH
from hlo_cli.analysis.fusion.gpu_work import microseconds
from hlo_cli.analysis.fusion.mutable_graph import mutable_graph_of, users_first
from hlo_cli.analysis.hardware.gpu_devices import gpu_device
from hlo_cli.ir.module import Module
from hlo_cli.transform.fusion import gpu_passes
from hlo_cli.transform.fusion.gpu_fusion import BOTH, TIE, GpuFusion, Pass, gpu_decisions, gpu_fuse
from hlo_cli.transform.fusion.gpu_passes import CommonSubexpressions
from in_process import Answer, run
from judge import ask_xla

MODELED = [program for program in programs() if not program.has_triton]
WITH_IDS = [program for program in MODELED if program.ids is not None]
CHAIN = """HloModule chain
ENTRY main {
  p = f32[4096,256] parameter(0)
  a = f32[4096,256] exponential(p)
  b = f32[4096,256] negate(a)
  c = f32[4096,256] custom-call(b), custom_call_target="library"
  ROOT d = f32[4096,256] add(c, b)
}
"""


@pytest.mark.parametrize("program", WITH_IDS, ids=str)
def test_with_ids_all_fusions_are_those_of_xla(program: Program) -> None:
    assert kernels_of(_fused(program, "before_priority_fusion", ("priority",), with_ids=True).module) == kernels_of(
        _module(program, "after_priority_fusion")
    )


@pytest.mark.parametrize("program", MODELED, ids=str)
def test_from_text_fusions_differ_in_marked_ties_only(program: Program) -> None:
    fusion = _fused(program, "before_priority_fusion", ("priority",))
    theirs = kernels_of(_module(program, "after_priority_fusion"))
    assert _unlike(fusion, theirs) <= {TIE}
    different = [ours - theirs.get(name, Counter()) for name, ours in kernels_of(fusion.module).items()]
    assert sum(each.total() for each in different) == (2 if str(program) == "h100_sxm-r001" else 0)


@pytest.mark.parametrize("program", programs(), ids=str)
def test_multi_output_fusions_differ_in_marked_ties_only(program: Program) -> None:
    fusion = _fused(program, "before_multi_output_fusion", ("multi-output",))
    theirs = kernels_of(_module(program, "after_multi_output_fusion"))
    assert _unlike(fusion, theirs) <= {TIE}
    assert (kernels_of(fusion.module) == theirs) == (str(program) != "a100_sxm_80-mlp_stats")


@pytest.mark.parametrize("program", WITH_IDS, ids=str)
def test_both_passes_together_make_what_xla_makes(program: Program) -> None:
    fusion = _fused(program, "before_priority_fusion", BOTH, with_ids=True)
    assert kernels_of(fusion.module) == kernels_of(_module(program, "after_multi_output_fusion"))


def test_multi_output_fusion_of_what_priority_fusion_would_take_in() -> None:
    """Users are in the order that priority fusion leaves, but of a kernel that it would not have left."""
    shape = "f32[4096,256]"
    made = gpu_fuse(
        parse_module(f"""HloModule m
f {{ x = {shape} parameter(0)  ROOT y = {shape} exponential(x) }}
g {{ x = {shape} parameter(0)  ROOT y = {shape} tanh(x) }}
ENTRY e {{ p = {shape} parameter(0)  a = {shape} negate(p)  b = {shape} fusion(a), kind=kLoop, calls=f
  c = {shape} fusion(a), kind=kLoop, calls=g  ROOT r = ({shape}, {shape}) tuple(b, c) }}"""),
        "h100",
        passes=("multi-output",),
    ).module
    [fusion] = [each for each in made.entry.instructions if each.opcode == "fusion"]
    assert [each.opcode for each in fusion.called_computations[0].instructions] == [
        "parameter", "negate", "exponential", "tanh", "tuple"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "has_several"),
    [
        ("b = f32[4096,256] exponential(a)  ROOT c = f32[4096,256] custom-call(b)", False),  # priority fusion's part
        ("b = f32[4096,256] exponential(a)  ROOT c = (f32[4096,256], f32[4096,256]) tuple(a, b)", True),
        (
            "b = f32[4096] reduce(a, z), dimensions={1}, to_apply=f  ROOT c = (f32[4096,256], f32[4096]) tuple(a, b)",
            True,
        ),
        ("b = f32[8,256] slice(a), slice={[0:8],[0:256]}  ROOT c = (f32[4096,256], f32[8,256]) tuple(a, b)", False),
    ],
)
def test_a_value_of_several_users_becomes_a_result_of_one(lines: str, has_several: bool) -> None:
    """As multi_output_fusion.cc: not of its only one, and only if both are computed in one loop."""
    made = gpu_fuse(
        parse_module(f"""HloModule m  f {{ i = f32[] parameter(0)  j = f32[] parameter(1)  ROOT k = f32[] add(i, j) }}
ENTRY e {{ z = f32[] constant(0)  p = f32[4096,256] parameter(0)  a = f32[4096,256] negate(p)  {lines} }}"""),
        "h100",
        passes=("multi-output",),
    ).module
    assert any(i.opcode == "fusion" for i in made.entry.instructions) == has_several


@pytest.mark.parametrize(("others", "is_fused"), [(94, True), (95, False)])
def test_a_kernel_has_no_more_than_96_operands_and_results(others: int, is_fused: bool) -> None:
    """`MaxOperandsAndOutputsPerFusion` of gpu_fusible.h, where the sum takes all that the value `a` is made of."""
    shape = "f32[4096]"
    given = "  ".join(f"x{n} = {shape} parameter({n})" for n in range(others))
    body = "  ".join(f"s{n + 1} = {shape} add(s{n}, x{n})" for n in range(others))
    operands = ", ".join(f"x{n}" for n in range(others))
    made = gpu_fuse(
        parse_module(f"""HloModule m
f {{ {given}  s0 = {shape} parameter({others})  {body}  ROOT r = {shape} abs(s{others}) }}
ENTRY e {{ {given}  a = {shape} negate(x0)  b = {shape} fusion({operands}, a), kind=kLoop, calls=f
  ROOT r = ({shape}, {shape}) tuple(a, b) }}"""),
        "h100",
        passes=("multi-output",),
    ).module
    assert ("negate" in [i.opcode for i in made.entry.instructions]) != is_fused


def test_few_fusions_are_ties() -> None:
    certain = Counter(
        label
        for program in MODELED[::3]
        for label in _fused(program, "before_priority_fusion", BOTH).certainty.values()
    )
    assert certain[TIE] < 0.2 * certain.total()


def test_all_ties_of_a_module_are_among_those_near_a_tie_if_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large module no other order is tried: then all near a tie, and near what was merged, is uncertain."""
    names = ("r001", "r010", "r015", "s0052", "s58", "s28", "s46", "adam", "pool_grad")
    certain, uncertain = Counter[str](), 0
    for program in (each for each in MODELED if each.home.name in names):
        module = _module(program, "before_priority_fusion")
        monkeypatch.undo()
        found = gpu_fuse(module, program.chip).certainty
        monkeypatch.setattr(gpu_passes, "_MAX_INSTRUCTIONS", 0)
        nearby = gpu_fuse(module, program.chip).certainty
        assert {name for name, label in found.items() if label == TIE} <= {
            name for name, label in nearby.items() if label == TIE
        }
        certain.update(nearby.values())
        uncertain += Counter(found.values())[TIE]
    assert uncertain
    assert certain["exact"] > 5


def test_other_orders_of_users_are_of_the_same_users() -> None:
    """Each is tried once: backward, rotated, shuffled, and by kind."""
    names = "abcdef"
    lines = "  ".join(f"{name} = s8[9] negate(p)" for name in names)
    text = f"ENTRY e {{ p = s8[9] parameter(0)  {lines}  ROOT t = ({', '.join(['s8[9]'] * 6)}) tuple({', '.join(names)}) }}"
    orders = []
    for other in gpu_passes._with_other_users(mutable_graph_of(parse_module(text).entry)):
        orders.append("".join(user.name for user in next(other.nodes).users))
        assert sorted(orders[-1]) == sorted(names)
    assert orders[:2] == ["fedcba", "bcdefa"]
    assert len(set(orders)) > 3


def test_a_fused_module_takes_less_time_by_the_model() -> None:
    fusion = gpu_fuse(parse_module(CHAIN), "h100")
    assert fusion.times[0] > fusion.times[1] > 0
    assert [(step.producer, step.consumer) for step in fusion.fused] == [("a", "b")]
    kernels = gpu_kernels(parse_module(CHAIN).entry, gpu_device("h100"))
    assert {each.name for each in kernels} == set("abd"), "all but the library call"
    assert fusion.times[0] == pytest.approx(
        microseconds(3 * LAUNCH) + sum(each.seconds * 1e6 for each in kernels.values())
    )


def test_decisions_on_what_stays_apart() -> None:
    found = {each.names: (each.reason, each.blocker) for each in gpu_decisions(parse_module(CHAIN), "h100")}
    assert found == {
        ("c", "d"): ("the producer is not fusible", None),
        ("fusion", "c"): ("the consumer is not fusible", None),
        ("fusion", "d"): ("the consumer is not fusible", "c"),
    }


def test_a_pair_that_may_be_fused_has_times_and_parts() -> None:
    text = CHAIN.replace(
        'c = f32[4096,256] custom-call(b), custom_call_target="library"', "c = f32[4096,256] cosine(b)"
    )
    scheduled = text.replace("HloModule chain", "HloModule chain, is_scheduled=true")
    pair = next(each for each in gpu_decisions(parse_module(scheduled), "h100") if each.names == ("a", "b"))
    assert pair.reason is None
    assert pair.kernels is not None
    assert pair.us_fused is not None
    assert pair.us_unfused is not None
    assert pair.us_fused < pair.us_unfused
    assert (pair.kernels[2].emitter, pair.kernels[2].blocks, pair.kernels[2].is_coalesced) == ("loop", 2048, True)


def test_chips_decide_differently() -> None:
    times = {chip: gpu_fuse(parse_module(CHAIN), chip).times[0] for chip in ("h100", "a100-80gb", "b200", "mi300x")}
    assert times["b200"] < times["h100"] < times["a100-80gb"]


@pytest.mark.oracle
def test_rewritten_modules_are_accepted_by_xla() -> None:
    texts = [_fused(program, "before_priority_fusion", BOTH).module.to_string() for program in MODELED]
    assert ask_xla(texts) == [True] * len(texts)


def test_the_screen_says_how_certain_fusions_are() -> None:
    program = next(
        each
        for each in MODELED
        if each.chip == "h100" and TIE in _fused(each, "before_priority_fusion", BOTH).certainty.values()
    )
    shown, notes, code = _hlo("fuse", _before(program), "--run-pass", "--chip", "h100", "--verbose")
    assert code == 0
    assert TIE in shown
    assert "predicted time on h100: " in " ".join(shown.split())
    assert "times are predicted by XLA's model" in notes


@pytest.mark.parametrize(("chip", "is_checked"), [("mi300x", True), ("arc-b580", False)])
def test_a_chip_without_a_compiler_is_named(chip: str, is_checked: bool) -> None:
    _, notes, code = _hlo("fuse", _before(WITH_IDS[0]), "--run-pass", "--chip", chip, "--verbose")
    assert code == 0
    assert ("no compiler for it was compared with" in " ".join(notes.split())) != is_checked


def test_changes_by_hand_have_a_predicted_time() -> None:
    shown, notes, code = _hlo("fuse", _before(WITH_IDS[0]), "--fuse", _pair(WITH_IDS[0]), "--chip", "h100", "--verbose")
    assert code == 0
    assert "predicted time on h100: " in " ".join(shown.split())
    assert "XLA:GPU would fuse these for h100" in notes


def test_why_not_is_computed_without_a_dump() -> None:
    shown, _, code = _hlo("fuse", _before(WITH_IDS[0]), "--why-not", "--chip", "h100")
    assert code == 0
    assert "not fused on h100" in " ".join(shown.split())


def test_a_gpu_module_needs_a_chip() -> None:
    _, notes, code = _hlo("fuse", str(HOME.parent / "gpu" / "h100_scan"), "--run-pass")
    assert code == 2
    assert "--run-pass on a GPU module requires --chip NAME" in notes


def _unlike(fusion: GpuFusion, theirs: dict[str, Counter[Kernel]]) -> set[str]:
    """How certain the fusions are that XLA does not make."""
    found = set()
    for computation, ours in named_kernels(fusion.module).items():
        left = theirs.get(computation, Counter()).copy()
        for name, kernel in ours:
            if not left[kernel]:
                found.add(fusion.certainty[name])
            left[kernel] -= 1
    return found


def _hlo(*arguments: str) -> Answer:
    return run([*arguments, "--format", "screen"], folder=HOME, settings={"COLUMNS": "120", "NO_COLOR": "1"})


def _before(program: Program) -> str:
    return str(program.home / "before_priority_fusion.txt.gz")


def _pair(program: Program) -> str:
    step = _fused(program, "before_priority_fusion", ("priority",)).fused[0]
    return f"{step.producer},{step.consumer}"


def _module(program: Program, stage: str) -> Module:
    return parse_module(program.text(stage))


@cache
def _fused(program: Program, stage: str, passes: tuple[Pass, ...], *, with_ids: bool = False) -> GpuFusion:
    module = _module(program, stage)
    if with_ids:
        ids = program.ids
        assert ids is not None
        for computation in module.computations:
            computation.by_id = {ids[each.name]: each for each in computation.instructions}
    return gpu_fuse(module, program.chip, passes=passes)


REDUCED = (
    "c = s8[] reduce(p, z), dimensions={{0}}, to_apply=one  d = s8[] reduce(p, z), dimensions={{0}}, to_apply={}"
    "  a = s8[9] broadcast(c), dimensions={{}}  b = s8[9] broadcast(d), dimensions={{}}"
)


@pytest.mark.parametrize(
    ("lines", "merged"),
    [
        ("a = s8[9] not(p)  b = s8[9] not(p)", 1),
        ("a = s8[9] not(p)  b = s8[9] not(q)", 0),
        ("a = s8[9] not(p)  b = s8[9] negate(p)", 0),
        ("a = s8[9] add(p, q)  b = s8[9] add(q, p)", 1),
        ("a = s8[9] subtract(p, q)  b = s8[9] subtract(q, p)", 0),
        ('a = s8[9] not(p), metadata={op_name="one"}  b = s8[9] not(p), metadata={op_name="two"}', 1),
        (REDUCED.format("two"), 2),
        (REDUCED.format("most"), 0),
        ("a = s8[9] iota(), iota_dimension=0  b = s8[9] iota(), iota_dimension=0", 0),  # counted as operands only
        (
            """i = s8[9] iota(), iota_dimension=0  j = s8[9] iota(), iota_dimension=0  a = s8[9] add(i, j)
            k = s8[9] iota(), iota_dimension=0  b = s8[9] subtract(j, k)""",
            0,
        ),
        ("a = s8[9] slice(w), slice={[0:9]}  b = s8[9] slice(w), slice={[1:10]}", 0),
    ],
)
def test_equal_operations_of_a_fusion_are_one(lines: str, merged: int) -> None:
    """As `HloCSE` of xla/service/hlo_cse.cc says what is equal."""
    bodies = "  ".join(
        f"{name} {{ {name}.i = s8[] parameter(0)  {name}.j = s8[] parameter(1)  ROOT {name}.k = s8[] {opcode}({name}.i, {name}.j) }}"
        for name, opcode in (("one", "add"), ("two", "add"), ("most", "maximum"))
    )
    given = "p = s8[9] parameter(0)  q = s8[9] parameter(1)  z = s8[] parameter(2)  w = s8[10] parameter(3)"
    body = f"f {{ {given}  {lines}  ROOT r = s8[9] multiply(a, b) }}"
    entry = f"ENTRY e {{ {given}  ROOT r = s8[9] fusion(p, q, z, w), kind=kLoop, calls=f }}"
    graph = mutable_graph_of(parse_module(f"HloModule m  {bodies}  {body}  {entry}").entry)
    assert CommonSubexpressions().merge_in(graph) == merged
    assert graph.root is not None
    assert graph.root.body is not None
    assert (graph.root.body.computation is None) == bool(merged), "what is not changed is not written anew"
    names = {node.name for node in graph.root.body.nodes}
    assert {"p", "q", "z", "w"} <= names
    left = {*users_first(graph.root.body), *graph.root.body.parameters}
    assert set(graph.root.body.nodes) == left, "what is merged is gone"
