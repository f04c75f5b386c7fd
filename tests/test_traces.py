"""The trace of a profiler holds the modules that ran: every command reads them as it reads other modules."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from hlo_cli.inputs.input import Input, read_inputs
from hlo_cli.library import load
from hlo_cli.read_input import read_module
from hlo_cli.source import HloError
from strategies import FIXTURES

TRACE = FIXTURES / "traces/cpu/trace.xplane.pb"


def names(inputs: tuple[Input, ...]) -> list[str | None]:
    return [each.module for each in inputs]


def test_a_trace_holds_the_modules_that_ran() -> None:
    found = read_inputs([str(TRACE)])
    assert {"jit_loss", "jit_step"} < set(names(found))  # and two small programs that made their arguments
    assert [each.source.name for each in found] == [f"{TRACE}#{number}" for number in (1, 2, 3, 4)]
    opcodes = {i.opcode for each in found for i in read_module(each.source, each.proto).instructions}
    assert {"dot", "tanh", "reduce"} <= opcodes


def test_a_module_of_a_trace_is_chosen_by_name_and_by_number(tmp_path: Path) -> None:
    assert load(str(TRACE), module="jit_loss").name == "jit_loss"
    for number in (1, 2):
        (chosen,) = read_inputs([f"{TRACE}#{number}"])
        assert chosen.source.name == f"{TRACE}#{number}"
    packed = tmp_path / "t.xplane.pb.gz"
    packed.write_bytes(gzip.compress(TRACE.read_bytes()))
    assert len(read_inputs([str(packed)])) == len(read_inputs([str(tmp_path)])) == 4
    assert len(read_inputs(["-"], stdin=io.BytesIO(TRACE.read_bytes()))) == 4
    with pytest.raises(HloError, match="module 'nosuch' not found"):
        read_inputs([str(TRACE)], module="nosuch")


def test_what_is_wrong_with_a_trace_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.xplane.pb"
    path.write_bytes(TRACE.read_bytes()[:-40])
    with pytest.raises(HloError, match=r"corrupt profiler trace|proto"):
        read_inputs([str(path)])
    path.write_bytes(b"\n\x0b\x12\x09/host:CPU")
    with pytest.raises(HloError, match="trace without HLO modules"):
        read_inputs([str(path)])
