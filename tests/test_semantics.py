"""What opcodes compute that XLA:CPU refuses, and rules that were once wrong: values by definition, element by element."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, parse_module
from hlo_cli.analysis.evaluate.run import evaluate
from hlo_cli.analysis.semantics.values import Value


def result_of(text: str, *arguments: object) -> Value:
    """The result of a module, or of one instruction."""
    return evaluate(parse_module(text), [np.asarray(each) for each in arguments]).result


def array_of(text: str, *arguments: object) -> np.ndarray:
    """The same for a result that is an array."""
    found = result_of(text, *arguments)
    assert isinstance(found, np.ndarray | np.generic)
    return np.asarray(found)


def _shape(kind: str, sizes: tuple[int, ...]) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


@pytest.mark.parametrize("mode", ["rows", "sums", "batches"])
@pytest.mark.parametrize("seed", range(6))
def test_groups_of_a_ragged_dot_are_dots_of_their_own(mode: str, seed: int) -> None:
    """Each element by its definition; sizes of groups for all at once or for each batch and row before."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    batch, outer, rows, inner, columns, groups = (random.randint(1, 4) for _ in range(6))
    x = numbers.integers(-9, 9, (batch, outer, rows, inner))
    y_sizes = (batch, inner, columns) if mode != "rows" else (batch, groups, inner, columns)
    y = numbers.integers(-9, 9, y_sizes)
    lead = {"rows": (batch, outer), "sums": (batch,), "batches": ()}[mode] if seed % 2 else ()
    sizes = numbers.integers(0, 4, (*lead, groups))
    ragged = {"rows": 2, "sums": 3, "batches": 0}[mode]
    result = (batch, outer, rows, columns)
    text = (
        f"r = {_shape('s64', (groups, *result) if mode == 'sums' else result)} ragged-dot({_shape('s64', x.shape)} a, "
        f"{_shape('s64', y.shape)} b, {_shape('s32', sizes.shape)} c), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{3}}, rhs_contracting_dims={{{2 if mode == 'rows' else 1}}}, "
        f"lhs_ragged_dims={{{ragged}}}{', rhs_group_dims={1}' if mode == 'rows' else ''}"
    )
    found = array_of(text, x, y, sizes)
    expected = np.zeros(found.shape, np.int64)
    for b, o, m, n in product(*map(range, result)):
        ends = np.cumsum(sizes[(b, o)[: len(lead)]]).tolist()
        if mode == "sums":
            for g, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
                expected[g, b, o, m, n] = sum(x[b, o, m, k] * y[b, k, n] for k in range(begin, min(end, inner)))
        elif mode == "batches":
            expected[b, o, m, n] = x[b, o, m] @ y[b, :, n] if b < ends[-1] else 0
        else:
            group = next((g for g, end in enumerate(ends) if m < end), None)
            expected[b, o, m, n] = 0 if group is None else x[b, o, m] @ y[b, group, :, n]
    assert np.array_equal(found, expected)


def test_sugared_asynchronous_operations_run_what_they_wrap() -> None:
    """A start with its operands, a start whose operand comes with an update, and attributes of the operation."""
    text = """ENTRY e { x = s32[2,3] parameter(0)
  a = ((s32[2,3]), s32[3,2], u32[]) transpose-start(x), dimensions={1,0}
  b = ((s32[2,3]), s32[3,2], u32[]) transpose-update(a)
  c = s32[3,2] transpose-done(b)
  d = ((s32[3,2]), s32[1,2], u32[]) slice-start(c), slice={[1:2], [0:2]}
  ROOT f = s32[1,2] slice-done(d) }"""
    assert array_of(text, [[1, 2, 3], [4, 5, 6]]).tolist() == [[2, 5]]


@pytest.mark.parametrize("opcode", ["add", "maximum", "select"])
def test_operands_of_the_bound_meet_those_of_the_size_at_run_time(opcode: str) -> None:
    call = {"select": "select(q, d, y)"}.get(opcode, f"{opcode}(d, y)")
    text = f"""ENTRY e {{ x = s32[2,5] parameter(0)  y = s32[2,5] parameter(1)  n = s32[] parameter(2)
  q = pred[2,5] compare(x, y), direction=LT
  d = s32[2,<=5] set-dimension-size(x, n), dimensions={{1}}
  r = s32[2,<=5] {call}
  k = s32[] get-dimension-size(r), dimensions={{1}}
  ROOT t = (s32[2,<=5], s32[]) tuple(r, k) }}"""
    x, y = np.array([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]]), np.array([[3, 3, 3, 3, 3], [7, 7, 7, 7, 7]])
    found = result_of(text, x, y, 3)
    assert isinstance(found, tuple)
    whole = {"add": x + y, "maximum": np.maximum(x, y), "select": np.where(x < y, x, y)}[opcode]
    assert np.array_equal(np.asarray(found[0]), whole[:, :3])
    assert found[1] == 3


def test_an_empty_iota_takes_no_memory() -> None:
    assert array_of("r = s64[300000000000,0,2] iota(), iota_dimension=0").shape == (300000000000, 0, 2)


def test_complex_numbers_have_no_order() -> None:
    with pytest.raises(HloError, match="complex numbers have no order"):
        array_of("r = pred[1] compare(c64[1] a, c64[1] b), direction=GE", [1j], [2j])
    assert array_of("r = pred[1] compare(c64[1] a, c64[1] b), direction=NE", [1j], [2j]).tolist() == [True]
