"""Sends that wait: the same problems as a look at the pairs of all of them each time, in time that is linear."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli import parse_module
from hlo_cli.lint.deadlock import deadlocks, own_problem
from hlo_cli.lint.waiting import Pairs, Waiting
from timing import is_linear

_PAIR = st.tuples(st.integers(0, 7), st.integers(0, 7))
_STEPS = st.lists(st.one_of(st.just(None), st.lists(_PAIR, max_size=3).map(tuple)), max_size=30)
_NOTHING = next(iter(parse_module("p = f32[] parameter(0)").instructions))


@given(_STEPS, st.randoms(use_true_random=False))
def test_problems_are_those_of_all_pairs(steps: list[Pairs | None], random: Random) -> None:
    waiting, plain = Waiting(), list[tuple[str, Pairs]]()
    for pairs in steps:
        if pairs is not None:
            waiting.add((str(pairs), pairs, _NOTHING))
            plain.append((str(pairs), pairs))
        elif plain:
            text, _ = random.choice(plain)
            assert text in waiting
            waiting.remove(text)
            plain.remove(next(each for each in plain if each[0] == text))
        assert [(text, pairs) for text, pairs, _ in waiting] == plain
        if random.random() < 0.7:
            assert waiting.problem() == own_problem(tuple(pair for _, pairs in plain for pair in pairs))


@pytest.mark.parametrize("pair", ["{0,1}", "{2N,2N1}", "{N,N1}", "{N1,N}"])
def test_sends_that_nothing_receives_take_linear_time(pair: str) -> None:
    def text(at: int) -> str:
        ways = pair.replace("2N1", str(2 * at + 1)).replace("2N", str(2 * at)).replace("N1", str(at + 1))
        attribute = f"frontend_attributes={{_xla_send_recv_source_target_pairs={{{ways.replace('N', str(at))}}}}}"
        return f"  s{at} = (f32[2], u32[], token[]) send(p, t), channel_id={at + 1}, {attribute}\n"

    def work(number: int) -> Callable[[], object]:
        sends = "".join(map(text, range(number)))
        module = parse_module(
            f"HloModule m, is_scheduled=true\nENTRY e {{\n  p = f32[2] parameter(0)\n  t = token[] after-all()\n{sends}}}\n"
        )
        return lambda: list(deadlocks(module))

    assert is_linear(work, 500, 4000)
