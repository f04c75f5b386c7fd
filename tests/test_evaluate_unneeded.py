"""Instructions that no result depends on do not have to be evaluated, and are not refused."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_cli import HloError, parse_module
from hlo_cli.analysis.evaluate.run import run

BAD = (
    'd = f32[2] custom-call(p), custom_call_target="my_op"',
    "d = f32[2] constant({...})",
    "d = f32[3] add(p, p)",
    'c = f32[2] custom-call(p), custom_call_target="my_op"  d = f32[2] negate(c)',
    "d = f32[2] fusion(p), kind=kLoop, calls=f",
    "d = f32[2] while(p), condition=g, body=f",
)
CALLED = """f { x = f32[2] parameter(0)  ROOT y = f32[2] custom-call(x), custom_call_target="my_op" }
g { x = f32[2] parameter(0)  ROOT c = pred[] constant(false) }
"""


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("partitions", [1, 2])
def test_what_no_result_depends_on_is_skipped(line: str, partitions: int) -> None:
    reduce = "all-reduce(p), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=s"
    result = "copy(p)" if partitions == 1 else reduce
    text = (
        f"HloModule m, num_partitions={partitions}\n{CALLED}"
        "s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
        f"ENTRY e {{ p = f32[2] parameter(0)\n{line}\nROOT r = f32[2] {result} }}"
    )
    argument = np.array([1, 2], np.float32)
    assert np.asarray(run(parse_module(text), [argument]).result).tolist() == [partitions, 2 * partitions]
    needed = text.replace(f"{result} }}", "negate(d) }")
    with pytest.raises(HloError, match="cannot evaluate"):
        run(parse_module(needed), [argument])
