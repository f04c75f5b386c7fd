"""The main module of several, and the helpers that JAX compiles next to it: by cost, and by whose function it is."""

from __future__ import annotations

import pytest

from hlo_cli import parse_module
from hlo_cli.analysis.query.main_module import (
    EXECUTIONS,
    HELPER_SHARE,
    ModuleCost,
    cost_of_module,
    is_from_user,
    rank_modules,
)

FRAMES = """

FileNames
1 "/home/ada/train.py"
2 "/usr/lib/python3/site-packages/jax/_src/random.py"

FunctionNames
1 "{function}"
2 "main.<locals>.{function}"

FileLocations
1 {{file_name_id={file} function_name_id=2 line=3 end_line=3 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}

"""


def framed(name: str, function: str, file: int = 1) -> str:
    body = 'ROOT r = f32[8]{0} iota(), iota_dimension=0, metadata={op_name="x" stack_frame_id=1}'
    return f"HloModule {name}{FRAMES.format(function=function, file=file)}ENTRY e {{\n  {body}\n}}\n"


def lined(name: str, *lines: tuple[str, int]) -> str:
    body = "\n".join(
        f'  r{n} = f32[8]{{0}} iota(), iota_dimension=0, metadata={{source_file="{file}" source_line={line}}}'
        for n, (file, line) in enumerate(lines)
    )
    return f"HloModule {name}\n\nENTRY e {{\n{body}\n  ROOT t = f32[] constant(0)\n}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (framed("jit_step", "step"), True),  # the stack has the function that the module is named after
        (framed("pmap_step", "step"), True),
        (framed("jit__lambda_", "<lambda>"), True),
        (framed("jit__normal", "main"), False),  # one line of the user's called a function of JAX
        (framed("jit__normal", "_normal", file=2), False),  # full tracebacks: the function is in JAX's file
        (lined("jit_step", ("a.py", 3), ("a.py", 4)), True),  # several lines of the user's
        (lined("jit_multiply", ("a.py", 3), ("a.py", 3)), False),
        (lined("jit_f", ("/x/site-packages/a.py", 3), ("/x/site-packages/a.py", 4)), None),
        (lined("jit__uniform"), False),  # no lines, a private function
        (lined("jit__lambda"), None),
        (lined("jit_step"), None),
        (lined("main.17", ("a.py", 3)), None),  # not JAX's name
    ],
)
def test_whose_function_a_module_is(text: str, expected: bool | None) -> None:
    assert is_from_user(parse_module(text)) is expected


def test_loops_count_as_often_as_they_run() -> None:
    text = """HloModule m
body { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }
cond { q = f32[8] parameter(0)  ROOT c = pred[] constant(true) }
ENTRY e {
  p = f32[8] parameter(0)
  ROOT w = f32[8] while(p), condition=cond, body=body, backend_config={"known_trip_count":{"n":"7"}}
}
"""
    cost = cost_of_module(parse_module(text))
    assert (cost.bytes, cost.flops, cost.steps) == (7 * 64, 7 * 8, 7)


def test_a_function_of_the_user_counts_as_run_many_times() -> None:
    helper = ModuleCost(EXECUTIONS - 1, 0, 0, is_users=False)
    step = ModuleCost(1, 0, 0, is_users=True)
    assert rank_modules([helper, step]).main == 1
    assert rank_modules([ModuleCost(EXECUTIONS + 1, 0, 0, is_users=False), step]).main == 0


def test_helpers_are_small_and_not_the_users() -> None:
    large, small = HELPER_SHARE + 0.01, HELPER_SHARE - 0.01
    costs = [ModuleCost(round(share * 10_000), 0, 0, is_users=False) for share in (0.6, large, small)]
    ranking = rank_modules(costs)
    assert ranking.order == (0, 1, 2)
    assert ranking.helpers == {2}
    step = ModuleCost(10_000, 1, 1, is_users=True)
    ranking = rank_modules([*costs, step, ModuleCost(1, 0, 0, is_users=True)])
    assert ranking.main == 3
    assert ranking.helpers == {0, 1, 2}


def test_without_source_lines_there_are_no_helpers() -> None:
    ranking = rank_modules([ModuleCost(1, 1, 1, is_users=None), ModuleCost(99, 9, 9, is_users=None)])
    assert (ranking.order, ranking.helpers) == ((1, 0), frozenset())


def test_modules_that_cost_nothing() -> None:
    ranking = rank_modules([ModuleCost(0, 0, 0, is_users=True)] * 2)
    assert (ranking.order, ranking.shares) == ((0, 1), (0.5, 0.5))
