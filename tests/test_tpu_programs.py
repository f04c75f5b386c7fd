"""Random programs compiled for every TPU: buffers lie where the compiler puts them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from compiler_memory import compiler_assignment
from hlo_cli.analysis.hardware.buffer_sizes import prefetched_space
from hlo_cli.analysis.memory.memory_analysis import memory_analysis
from hlo_cli.syntax.text.parser import parse_module
from placing import tpu_dumps, verdicts

TOPOLOGIES = ("v2:2x2", "v3:2x2", "v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
SCRIPT = Path(__file__).parent / "tpu_programs.py"
PROGRAMS = 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("libtpu") is None or find_spec("jax") is None, reason="libtpu is not installed"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_buffers_lie_where_the_compiler_puts_them(topology: str, tmp_path: Path) -> None:
    """Witness: the buffer assignment of libtpu, whatever release is installed."""
    settings = {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    seed = str(100 * TOPOLOGIES.index(topology))
    command = [sys.executable, str(SCRIPT), topology, seed, str(PROGRAMS)]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **settings}, check=True, timeout=280)
    generation = topology.partition(":")[0].removeprefix("tpu")
    dumps = list(tpu_dumps([tmp_path]))
    assert len(dumps) >= PROGRAMS
    for dump in dumps:
        memory = memory_analysis(parse_module(dump.text), target="tpu", generation=generation)
        for space, verdict in verdicts(memory, compiler_assignment(dump)).items():
            if space != prefetched_space("tpu", generation):
                assert verdict.is_whole, (dump.path, space, verdict)
