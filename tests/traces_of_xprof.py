"""The traces that XProf was asked about, and its answers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import traces_of_gpus
import traces_of_tpus
from hlo_cli.ir.traces.trace import Trace
from hlo_cli.read_traces import read_trace_bytes
from traces_at_random import random_tpu_file

Kind = TypeVar("Kind")
TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
ANSWERS = Path(__file__).parent / "data" / "xprof.json.gz"
RANDOM = (0, 1, 2, 5, 6, 7)
"""Seeds; others make overlaps for which XProf's self time is negative, and wraps around."""
JSON_FILES = {
    "cpu_loops, TPU, device clock of steps too": ANSWERS.with_name("xprof.tpu.trace.json.gz"),
    "cpu_loops, GPU, derived lines": ANSWERS.with_name("xprof.gpu.trace.json.gz"),
}
"""What XProf writes of some files as trace.json."""
SOURCES = ("cpu_loops/trace.xplane.pb.gz", "cpu/trace.xplane.pb")


@cache
def source(name: str) -> Trace:
    """The recorded trace of a CPU with a name, such as `cpu_loops`."""
    (path,) = (path for path in SOURCES if path.startswith(f"{name}/"))
    data = (TRACES / path).read_bytes()
    return read_trace_bytes(gzip.decompress(data) if path.endswith(".gz") else data, path)


def makers() -> dict[str, Callable[[], bytes]]:
    """What makes the content of each file, by name: `SOURCE, PLATFORM, VARIANT`."""
    found: dict[str, Callable[[], bytes]] = {
        f"random {seed}, TPU, any": partial(random_tpu_file, seed) for seed in RANDOM
    }
    for name in (path.partition("/")[0] for path in SOURCES):
        for kind in traces_of_tpus.VARIANTS:
            found[f"{name}, TPU, {kind.name}"] = partial(_made, traces_of_tpus.tpu_file, name, kind)
        for variant in traces_of_gpus.VARIANTS:
            found[f"{name}, GPU, {variant.name}"] = partial(_made, traces_of_gpus.gpu_file, name, variant)
    return found


def _made(make: Callable[[Trace, Kind], bytes], name: str, kind: Kind) -> bytes:
    return make(source(name), kind)
