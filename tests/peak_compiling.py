"""Programs of `peak_programs.py` compiled with changes, and the peak that the compiler's own files tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
from hlo_cli.analysis.memory.occupancy import timeline
from hlo_cli.commands.memspace.compiler_files import compiler_memory
from hlo_cli.commands.modules.loading import load_one
from hlo_cli.commands.options.io_options import InputOptions

from compiler_memory import compiler_assignment, compiler_ranges  # isort: skip

SCRIPT = Path(__file__).parent / "peak_programs.py"


@dataclass(frozen=True)
class Compiled:
    """A compiled program: its dump, and what the compiler said of it, or why it refused."""

    dump: Path
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def memory(self) -> MemoryAnalysis:
        """The memory as `hlo memspace` reports it."""
        return compiler_memory(load_one([str(self.dump)], InputOptions(stage="after_optimizations")))

    @property
    def peak_bytes(self) -> int:
        """The largest number of live bytes in main memory, from the compiler's live ranges and buffer assignment."""
        ranges = compiler_ranges(self).ranges
        slots = [
            (*ranges[place.key], place.size, number << 48 | place.offset)
            for number, allocation in enumerate(compiler_assignment(self))
            for place in allocation.places
            if not place.colour and place.key in ranges and not allocation.is_local
        ]
        return max(timeline(sorted(slots), max(end for _, end, _, _ in slots) + 1))

    @property
    def allocated_bytes(self) -> int:
        """What the compiler reserves: arguments, results, and temporary values."""
        parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
        return sum(int(self.said[part]) for part in parts) - int(self.said["alias_size_in_bytes"])

    def sibling(self, kind: str) -> str:
        """The text of a file that the compiler wrote next to the dump."""
        [path] = self.dump.glob(f"*after_optimizations-{kind}.txt")
        return path.read_text()


def compile_all(topology: str, jobs: Sequence[Mapping[str, Any]], place: Path) -> list[Compiled]:
    """Compile jobs of `peak_programs.py` in one process; the dumps go to new folders in `place`."""
    given = [{**job, "dump": str(place / f"{n}")} for n, job in enumerate(jobs, len(list(place.iterdir())))]
    settings = {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), topology],
        input=json.dumps(given),
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **settings},
        check=True,
    )
    said = [json.loads(line[4:]) for line in answer.stdout.splitlines() if line.startswith("JOB ")]
    assert len(said) == len(jobs)
    return [Compiled(Path(each["dump"]), each) for each in said]
