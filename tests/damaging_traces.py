"""Damaged traces of all formats, and a look at all that is read of one."""

from __future__ import annotations

import gzip
import re
from functools import cache
from random import Random

from hlo_cli.ir.traces.trace import Trace
from hlo_cli.read_traces import read_trace_bytes
from hlo_cli.source import HloError
from strategies import FIXTURES
from xspaces import random_xspace, varint

_ANSWER = re.compile(r"byte \d|is empty|not a profiler trace|contains no kernels|without traceEvents")
TABLES = (
    b"""\
Name,Projected Start (ns),Projected Duration (ns),PID,TID,NumGPUOps,RangeId,ParentId
"TSL:XlaModule:#hlo_module=jit_f,program_id=7#",1000,100,1,5,2,1,
"TSL:Thunk:#name=add,hlo_op=fusion.1#",1000,60,1,5,1,2,1
""",
    b"""\
"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH",1,2,"loop_add.kd",5,100,350
""",
)


@cache
def whole_traces() -> tuple[bytes, ...]:
    """Traces that are not damaged."""
    recorded = [path.read_bytes() for path in sorted(FIXTURES.glob("traces/*/*.xplane.pb"))]
    (packed,) = FIXTURES.glob("traces/cpu_steps/trace.json.gz")
    return (*recorded, gzip.decompress(packed.read_bytes())[:20_000], *TABLES)


def damaged_trace(random: Random) -> bytes:
    """A trace with some changes, or a random one."""
    if random.random() < 0.1:
        return random_xspace(random.randrange(1 << 30))
    data = bytearray(random.choice(whole_traces()))
    for _ in range(random.choice((1, 2, 5, 20))):
        at = random.randrange(len(data))
        match random.randrange(5):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                del data[at : at + random.randrange(50)]
            case 2:
                data[at:at] = varint(random.getrandbits(random.randrange(1, 64)))
            case 3:
                data[at:at] = random.choice((b'"', b"{", b"[", b"9" * 30, b"\n", b",", b"\x0b", b"\x1b[31m", b"\xff"))
            case 4:
                other = random.randrange(len(data))
                data[at : at + 20] = data[other : other + 20]
        if not data:
            return b""
    return bytes(data)


def look_at_all(data: bytes) -> Trace | None:
    """Reads all there is in a trace; None if that is an HloError, which says where the damage is or what is missing."""
    try:
        trace = read_trace_bytes(data, "t")
        for plane in trace.planes:
            assert all((kind.name + kind.display_name).encode() is not None for kind in plane.kinds.values())
            assert plane.statistics is not None
            for line in plane.lines:
                line.statistic("hlo_op")
                assert len(line.begins_ps) == len(line.events)
                for at in range(len(line.events)):
                    line.events.statistics_of(at)
        trace.programs()
    except HloError as error:
        if not _ANSWER.search(str(error)):
            raise
        return None
    return trace
