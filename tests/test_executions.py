"""How often a computation runs: one meaning, for costs, schedules, findings, differences, and expectations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.cost.cost_analysis import inclusive_costs
from hlo_cli.analysis.dataflow.executions import MAX_EXECUTIONS, Executions, executions_of
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.time_model import TPU_FLOOR_SECONDS
from hlo_cli.analysis.matching.module_diff import RowCosts, diff
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap
from hlo_cli.analysis.schedule.step_time import estimate_time
from hlo_cli.analysis.statements.statements import numbers_of
from hlo_cli.ir.module import Module


def loop(name: str, trips: int | None, *, operand: str = "p", root: bool = False) -> str:
    """A while instruction that runs the body `name` and the condition `c_name`."""
    known = "" if trips is None else f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    what = f"f32[9] while({operand}), condition=c_{name}, body={name}{known}"
    return f"{'ROOT ' if root else ''}w_{name} = {what}\n"


def body(name: str, inside: str = "ROOT r = f32[9] negate(p)") -> str:
    """A loop body with a condition of two kernels, whose result is not derived from the text."""
    condition = 'ROOT u = pred[] custom-call(n), custom_call_target="more"'
    return (
        f"{name} {{ p = f32[9] parameter(0)\n {inside} }}\n"
        f"c_{name} {{ p = f32[9] parameter(0)  n = f32[9] negate(p)\n {condition} }}\n"
    )


def program(*computations: str, main: str) -> Module:
    """A scheduled module."""
    text = "\n".join(computations)
    return parse_module(f"HloModule m, is_scheduled=true\n{text}\nENTRY e {{ p = f32[9] parameter(0)\n {main} }}")


def found(module: Module) -> Mapping[str, tuple[int, bool, bool]]:
    """The executions by the name of the computation."""
    return {c.name: (e.count, e.is_known, e.in_branch) for c, e in executions_of(module).items()}


def test_a_condition_runs_once_more_than_the_body() -> None:
    module = program(body("b"), main=loop("b", 7, root=True))
    assert found(module) == {"e": (1, True, False), "b": (7, True, False), "c_b": (8, True, False)}


def test_a_loop_without_iterations_checks_its_condition() -> None:
    module = program(body("b"), main=loop("b", 0, root=True))
    assert found(module) == {"e": (1, True, False), "b": (0, True, False), "c_b": (1, True, False)}


def test_nested_loops_multiply_and_unknown_ones_count_one_iteration() -> None:
    inner = body("inner")
    outer = body("outer", loop("inner", None, root=True))
    assert found(program(inner, outer, main=loop("outer", 5, root=True))) == {
        "e": (1, True, False), "outer": (5, True, False), "c_outer": (6, True, False),
        "inner": (5, False, False), "c_inner": (5, False, False),
    }  # fmt: skip


def test_what_a_loop_without_iterations_contains_never_runs() -> None:
    outer = body("outer", loop("inner", None, root=True))
    numbers = found(program(body("inner"), outer, main=loop("outer", 0, root=True)))
    assert numbers["inner"] == numbers["c_inner"] == (0, True, False)


def test_callers_add_up() -> None:
    callee = "f { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    inside = body("b", "ROOT r = f32[9] call(p), to_apply=f")
    main = loop("b", 4) + " one = f32[9] call(w_b), to_apply=f  ROOT two = f32[9] call(one), to_apply=f"
    assert found(program(callee, inside, main=main))["f"] == (6, True, False)


def test_branches_run_at_most_once() -> None:
    branches = "x { p = f32[9] parameter(0)  ROOT r = f32[9] call(p), to_apply=f }\n"
    branches += "y { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    callee = "f { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    main = "i = s32[] constant(0)  ROOT r = f32[9] conditional(i, p, p), branch_computations={x, y}"
    assert found(program(callee, branches, main=main)) == {
        "e": (1, True, False), "x": (1, True, True), "y": (1, True, True), "f": (1, True, True),
    }  # fmt: skip


@pytest.mark.parametrize("done", ["ROOT d = f32[9] async-done(s)", "ROOT d = f32[9] async-done(s), calls=f"])
def test_an_async_computation_runs_once(done: str) -> None:
    callee = "f { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    module = program(callee, main=f"s = ((f32[9]), f32[9], s32[]) async-start(p), calls=f\n {done}")
    assert found(module)["f"] == (1, True, False)


def test_fused_and_applied_computations_run_as_often_as_their_callers() -> None:
    fused = (
        "f { p = f32[9] parameter(0)  z = f32[] constant(0)  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=a }"
    )
    add = "a { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }"
    inside = "k = f32[] fusion(p), kind=kLoop, calls=f  ROOT r = f32[9] negate(p)"
    numbers = found(program(add, fused, body("b", inside), main=loop("b", 3, root=True)))
    assert numbers["f"] == numbers["a"] == (3, True, False)


def test_more_executions_than_plausible_are_unknown() -> None:
    outer = body("outer", loop("inner", 10**12, root=True))
    module = program(body("inner"), outer, main=loop("outer", 10**12, root=True))
    assert found(module)["inner"] == (MAX_EXECUTIONS, False, False)
    assert Executions(MAX_EXECUTIONS, is_known=False).known is None


def test_every_command_counts_alike() -> None:
    """A kernel in a body that runs 4 times, one in a callee that runs 6 times, and conditions that run 5 times."""
    callee = "f { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    inside = body("b", "k = f32[9] negate(p)  ROOT r = f32[9] call(k), to_apply=f")
    main = loop("b", 4) + " one = f32[9] call(w_b), to_apply=f  ROOT two = f32[9] call(one), to_apply=f"
    module = program(callee, inside, main=main)
    flops = 9 * (4 + 6 + 5)
    assert sum(cost.flops for cost in inclusive_costs(module.entry.instructions).values()) == flops
    assert numbers_of(module).flops == flops
    step = estimate_time(analyze_overlap(module), chip_spec("v5e"))
    often = {"b": 4, "f": 6, "c_b": 5}
    assert all(time.seconds < TPU_FLOOR_SECONDS for time in step.kernels.values())
    seconds = sum(often[kernel.computation.name] * TPU_FLOOR_SECONDS for kernel in step.kernels)
    assert step.compute_seconds == pytest.approx(seconds)
    other = parse_module("HloModule m  ENTRY e { ROOT p = f32[9] parameter(0) }")
    costs = RowCosts(diff(module, other))
    made = {each.computation.name: costs.of(each) for each in module.instructions if each.opcode == "negate"}
    assert made == {"b": 4 * 36, "f": 6 * 36, "c_b": 5 * 36}


def test_a_transfer_in_a_loop_of_unknown_trip_count_moves_at_least_its_known_iterations() -> None:
    moved = (
        "s = (f32[9]{0:S(1)}, f32[9], u32[]) copy-start(p)  d = f32[9]{0:S(1)} copy-done(s)  ROOT r = f32[9] negate(p)"
    )
    outer = body("outer", loop("inner", None, root=True))
    module = program(body("inner", moved), outer, main=loop("outer", 5, root=True))
    (interval,) = analyze_overlap(module).intervals
    assert (interval.times, interval.total_bytes) == (None, 5 * interval.moved_bytes)


def test_the_overlap_of_a_transfer_is_of_one_call() -> None:
    """A computation that is called twice is in the flattened schedule at its first call."""
    callee = "f { p = f32[9] parameter(0)  ROOT r = f32[9] negate(p) }"
    main = """s = (f32[9]{0:S(1)}, f32[9], u32[]) copy-start(p)
      one = f32[9] call(p), to_apply=f
      d = f32[9]{0:S(1)} copy-done(s)
      ROOT two = f32[9] call(one), to_apply=f"""
    (interval,) = analyze_overlap(program(callee, main=main)).intervals
    assert interval.between.kernels == 1
