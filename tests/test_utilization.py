"""MFU and HFU: which FLOPs count, by which peak, over which time; a real program against the count by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_cli import Profile, parse_module, profile
from hlo_cli.analysis.dataflow.executions import executions_of
from hlo_cli.analysis.profile.step_budget import step_budget
from hlo_cli.analysis.profile.utilization import Utilization, utilization_by_step, utilization_of
from hlo_cli.cli import main
from traces_of_cpus import Ran, cpu_file

BOTH = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
AGAIN = 'metadata={op_name="jit(f)/transpose(jvp())/checkpoint/rematted_computation/dot_general"}'
MODULE = f"""HloModule jit_f
body {{
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[64,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  hh = f32[64,64] dot(h, h), {BOTH}
  ROOT t = (s32[], f32[64,64]) tuple(next, hh)
}}
cond {{
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}}
fused {{
  p = bf16[64,64] parameter(0)
  q = bf16[64,64] parameter(1)
  ROOT d = bf16[64,64] dot(p, q), {BOTH}
}}
ENTRY e {{
  a = f32[64,64] parameter(0)
  b = bf16[64,64] parameter(1)
  x = f32[64,64] dot(a, a), {BOTH}
  y = f32[64,64] dot(x, a), {BOTH}, {AGAIN}
  z = bf16[64,64] fusion(b, b), kind=kOutput, calls=fused
  w = f32[64,64] add(x, y)
  zero = s32[] constant(0)
  start = (s32[], f32[64,64]) tuple(zero, w)
  loop = (s32[], f32[64,64]) while(start), condition=cond, body=body, backend_config={{"known_trip_count":{{"n":"5"}}}}
  own = f32[64,64] custom-call(w), custom_call_target="mine"
  ROOT r = (bf16[64,64], f32[64,64], (s32[], f32[64,64])) tuple(z, own, loop)
}}"""
ONE = 2 * 64**3
"""The FLOPs of one product."""
PEAKS = {"tf32": 1e12, "bf16": 4e12}


def traced(folder: Path, *ops: str, end: int = 1000, module: str = MODULE) -> Profile:
    """Two steps of so many nanoseconds on one device, each with these operations; a third one is partial."""
    ran = [
        Ran(op, end * step + 10 * at, 10, run=step + 1)
        for step in range(2)
        for at, op in enumerate(ops)
    ]  # fmt: skip
    path = folder / "t.xplane.pb"
    steps = [(step, end * step, end * (step + 1)) for step in range(2)]
    path.write_bytes(cpu_file(ran, parse_module(module), steps))
    return profile(path)


def used_by(found: Profile) -> Utilization:
    used = utilization_of(found, step_budget(found), PEAKS.get)
    assert used is not None
    return used


def test_matmuls_count_by_the_peak_of_their_type(tmp_path: Path) -> None:
    used = used_by(traced(tmp_path, "x", "z", "w"))
    assert used.flops_of_type == {"tf32": 2 * ONE, "bf16": 2 * ONE}
    assert used.seconds == pytest.approx(2000e-9)
    assert used.mfu == used.hfu == pytest.approx((2 * ONE / 1e12 + 2 * ONE / 4e12) / 2000e-9)
    assert (used.operations, used.unknown) == (2, ())


def test_what_is_computed_again_counts_as_hardware_flops_only(tmp_path: Path) -> None:
    used = used_by(traced(tmp_path, "x", "y"))
    assert (used.model_flops, used.hardware_flops) == (2 * ONE, 4 * ONE)
    assert used.mfu is not None
    assert used.hfu == pytest.approx(2 * used.mfu)


def test_a_loop_counts_once_a_trip(tmp_path: Path) -> None:
    """As one kernel by its trip count; with events of its body, by these."""
    assert used_by(traced(tmp_path, "loop")).model_flops == 2 * 5 * ONE
    assert used_by(traced(tmp_path, "loop", *["hh"] * 5)).model_flops == 2 * 5 * ONE


BRANCHES = f"""HloModule jit_f
small {{
  a = f32[64,64] parameter(0)
  ROOT dx = f32[64,64] dot(a, a), {BOTH}
}}
big {{
  b = f32[64,64] parameter(0)
  d1 = f32[64,64] dot(b, b), {BOTH}
  ROOT d2 = f32[64,64] dot(d1, b), {BOTH}
}}
wrapped {{
  v = f32[64,64] parameter(0)
  ROOT dv = f32[64,64] dot(v, v), {BOTH}
}}
ENTRY e {{
  a = f32[64,64] parameter(0)
  p = pred[] parameter(1)
  w = f32[64,64] dot(a, a), {BOTH}
  c = f32[64,64] conditional(p, w, w), true_computation=small, false_computation=big
  even = f32[64,64] conditional(p, w, w), true_computation=small, false_computation=small
  start = ((f32[64,64]), f32[64,64], u32[]) async-start(c), calls=wrapped
  middle = ((f32[64,64]), f32[64,64], u32[]) async-update(start), calls=wrapped
  ROOT done = f32[64,64] async-done(middle), calls=wrapped
}}"""


def test_a_branch_that_did_not_run_does_not_count(tmp_path: Path) -> None:
    used = used_by(traced(tmp_path, "w", "c", "dx", module=BRANCHES))
    assert (used.model_flops, used.operations, used.guesses) == (2 * 2 * ONE, 2, ())
    used = used_by(traced(tmp_path, "c", "d1", "d2", module=BRANCHES))
    assert (used.model_flops, used.guesses) == (2 * 2 * ONE, ())


def test_a_conditional_without_events_inside_counts_as_its_least_branch(tmp_path: Path) -> None:
    used = used_by(traced(tmp_path, "c", module=BRANCHES))
    assert used.model_flops == 2 * ONE
    assert used.guesses == ("which branch of c ran, counted as that of fewest flops",)
    used = used_by(traced(tmp_path, "even", module=BRANCHES))
    assert (used.model_flops, used.guesses) == (2 * ONE, ()), "branches of equal work leave nothing open"


@pytest.mark.parametrize(
    "ops", [("start", "middle", "done"), ("start", "done"), ("start",), ("middle", "done"), ("done",)]
)
def test_an_asynchronous_matmul_counts_once(ops: tuple[str, ...], tmp_path: Path) -> None:
    assert used_by(traced(tmp_path, *ops, module=BRANCHES)).model_flops == 2 * ONE
    assert used_by(traced(tmp_path, *ops, "dv", module=BRANCHES)).model_flops == 2 * ONE, "by its own events"


@pytest.mark.parametrize(
    ("trips", "flops", "is_known"),
    [("7", 7, True), ("0", 0, True), ("1e400", 5, True), ("7" * 30, 5, True), (None, 1, False)],
)
def test_trip_counts_are_those_of_the_costs(trips: str | None, flops: int, is_known: bool, tmp_path: Path) -> None:
    """A loop without events of its body counts as often as the executions that costs multiply with.

    A count that is no int64 is none: then the condition tells.
    """
    text = MODULE.replace('"n":"5"', f'"n":"{trips}"')
    if trips is None:
        text = MODULE.replace(', backend_config={"known_trip_count":{"n":"5"}}', "").replace(
            "direction=LT", "direction=EQ"
        )
    module = parse_module(text)
    assert executions_of(module)[module.computation("body")].count == flops
    used = used_by(traced(tmp_path, "x", "loop", module=text))
    assert used.model_flops == 2 * (1 + flops) * ONE
    assert used.guesses == (() if is_known else ("the trip count of loop, counted as 1",))


def test_a_utilization_above_one_is_a_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(tmp_path, "x", "c", module=BRANCHES.replace("w = f32", "x = f32").replace("(p, w, w)", "(p, x, x)"))
    chips = tmp_path / "chips.toml"
    chips.write_text("[chip.mine]\nflops = { f32 = 1e12 }\nmemory = 1e9\n")
    words = ["profile", str(tmp_path / "t.xplane.pb"), "--chip", "mine", "--chip-file", str(chips)]
    assert main([*words, "--format", "screen"], standalone=False) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "MFU about 105% (above the peak)" in shown
    assert (
        "MFU is above 100%, which is impossible: matmuls need fewer flops than XLA counts, the guess is too high"
        in shown
    )
    assert "or the peak rate is too low, such as that of another chip than mine." in shown
    assert "Flops of matmuls are a guess where no events show it: which branch of c ran" in shown
    assert main([*words, "--json"], standalone=False) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["flops_are_estimated"] is True


def test_without_steps_flops_are_per_execution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = [Ran("x", 1000 * run, 10, run=run + 1) for run in range(2)]
    (tmp_path / "t.xplane.pb").write_bytes(cpu_file(ran, parse_module(MODULE)))
    assert (
        main(["profile", str(tmp_path / "t.xplane.pb"), "--chip", "h100", "--format", "screen"], standalone=False) == 0
    )
    assert "524,288 flops per execution," in " ".join(capsys.readouterr().out.split())


def test_unknown_work_is_named_and_unknown_peaks_have_no_mfu(tmp_path: Path) -> None:
    found = traced(tmp_path, "x", "own")
    assert used_by(found).unknown == ("own",)
    used = utilization_of(found, step_budget(found), lambda kind: None)
    assert used is not None
    assert (used.mfu, used.hfu, used.model_flops) == (None, None, 2 * ONE)
    assert utilization_of(traced(tmp_path, "w"), None, PEAKS.get) is None


def test_steps_have_their_own_mfu(tmp_path: Path) -> None:
    found = traced(tmp_path, "x", "y")
    by_step = utilization_by_step(found, step_budget(found), PEAKS.get)
    assert [flops for flops, _ in by_step] == [ONE, ONE]
    assert [mfu for _, mfu in by_step] == pytest.approx([ONE / 1e12 / 1000e-9] * 2)
    used = used_by(found)
    assert used.mfu == pytest.approx(by_step[0][1])


def test_the_screen_says_what_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced(tmp_path, "x", "y", "own")
    path = str(tmp_path / "t.xplane.pb")
    chips = tmp_path / "chips.toml"
    chips.write_text("[chip.mine]\nflops = { f32 = 1e12, bf16 = 4e12 }\nmemory = 1e9\n")
    chip = ["--chip", "mine", "--chip-file", str(chips)]
    assert main(["profile", path, *chip, "--format", "screen"], standalone=False) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "MFU 52% · HFU 105% (above the peak)" in shown
    assert "MFU: 2 operations with matmuls, 524,288 flops per step, against 1 Tflop/s in f32" in shown
    assert "50% of the flops of matmuls are of rematerialization, which only HFU counts." in shown
    assert "Elementwise work is not counted; custom calls of unknown work: own." in shown
    assert "HFU is above 100%, which is impossible: matmuls need fewer flops than XLA counts" in shown
    assert main(["profile", path, *chip, "--json"], standalone=False) == 0
    numbers = json.loads(capsys.readouterr().out)["answer"]
    assert (numbers["model_flops"], numbers["hardware_flops"]) == (ONE, 2 * ONE)
    assert numbers["hfu"] == pytest.approx(2 * numbers["mfu"])
    assert main(["profile", path, *chip, "--by", "step", "--json"], standalone=False) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["steps"]["rows"]
    assert [row["mfu"] for row in rows] == pytest.approx([numbers["mfu"]] * 2)
    assert main(["profile", path, "--json"], standalone=False) == 0
    assert json.loads(capsys.readouterr().out)["answer"]["mfu"] is None


REAL = """
import sys, jax, jax.numpy as jnp
L, B, D = 3, 32, 64
def loss(ws, x):
    @jax.checkpoint
    def body(x, w):
        return jnp.tanh(jnp.tanh(x @ w) @ w), None
    return jax.lax.scan(body, x, ws)[0].sum()
step = jax.jit(jax.grad(loss))
ws, x = jnp.ones((L, D, D)), jnp.ones((B, D))
step(ws, x).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for number in range(4):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            step(ws, x).block_until_ready()
"""


@pytest.mark.oracle
def test_a_real_program_has_the_flops_of_the_count_by_hand(tmp_path: Path) -> None:
    """As MaxText counts: 2 FLOPs a weight and row forward, twice that backward; forward again only in HFU."""
    pytest.importorskip("jax")
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    subprocess.run([sys.executable, "-c", REAL, str(tmp_path)], env=environment, check=True, timeout=200)
    found = profile(tmp_path)
    budget = step_budget(found)
    assert budget is not None
    # On a busy machine, the profiler may lose events of a step, which then is not whole and does not count.
    steps = len(budget.steps)
    assert 1 <= steps <= 4
    used = utilization_of(found, budget, lambda kind: 1e12)
    assert used is not None
    weights, rows = 3 * 2 * 64 * 64, 32
    assert used.model_flops == steps * 6 * weights * rows
    assert used.hardware_flops == steps * 8 * weights * rows
