"""The traces that XProf was asked about, and its answers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import traces_of_gpus
from hlo_cli.ir.traces.trace import Trace
from hlo_cli.syntax.traces.read import read_trace
from traces_at_random import random_tpu_file
from traces_of_tpus import VARIANTS, tpu_file

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
ANSWERS = Path(__file__).parent / "data" / "xprof.json.gz"
RANDOM = (0, 1, 2, 5, 6, 7)
"""Seeds; others make overlaps for which XProf's self time is negative, and wraps around."""
SOURCES = ("cpu_loops/trace.xplane.pb.gz", "cpu/trace.xplane.pb")


def sources() -> Iterator[tuple[str, Trace]]:
    """The recorded traces of CPUs."""
    for name in SOURCES:
        data = (TRACES / name).read_bytes()
        yield name.partition("/")[0], read_trace(gzip.decompress(data) if name.endswith(".gz") else data, name)


def files() -> Iterator[tuple[str, bytes]]:
    """Name and content of the files."""
    for seed in RANDOM:
        yield f"random {seed}, TPU, any", random_tpu_file(seed)
    for name, trace in sources():
        for kind in VARIANTS:
            yield f"{name}, TPU, {kind.name}", tpu_file(trace, kind)
        for variant in traces_of_gpus.VARIANTS:
            yield f"{name}, GPU, {variant.name}", traces_of_gpus.gpu_file(trace, variant)
