"""Our buffer assignment against the compiler's, memory space by memory space.

`python tests/placing.py DIR…` says so of all dumps for TPUs below some folders, whose names begin with the generation.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler_memory import Assignment, Key, compiler_assignment
from dumps import Dump
from hlo_cli.analysis.memory.memory_analysis import Allocation, MemoryAnalysis, memory_analysis
from hlo_cli.syntax.text.parser import parse_module

_GENERATION = re.compile(r"(?:^|_)(v2|v3|v4|v5e|v5p|v6e|7x)(?:_|$)")


@dataclass(frozen=True)
class Verdict:
    """What was compared in one memory space: the temporary bytes of both, and of values with bytes where they lie.

    `wrong` are those that lie elsewhere; `has_same_allocations` is about what is no part of the heap.
    """

    temporaries: int
    expected: int
    values: int
    wrong: tuple[Key, ...]
    has_same_allocations: bool

    @property
    def is_whole(self) -> bool:
        """Whether nothing differs."""
        return self.temporaries == self.expected and not self.wrong and self.has_same_allocations


def verdicts(memory: MemoryAnalysis, given: Iterable[Assignment]) -> dict[int, Verdict]:
    """The verdict on each memory space, without what applied computations keep to themselves."""
    theirs = [a for a in given if not a.is_local]
    ours = [a for a in memory.allocations if a.kind != "thread-local"]
    spaces = {a.colour for a in theirs} | {a.space for a in ours}
    return {
        space: _verdict([a for a in ours if a.space == space], [a for a in theirs if a.colour == space])
        for space in sorted(spaces)
    }


def _verdict(ours: list[Allocation], theirs: list[Assignment]) -> Verdict:
    lies = {(v.instruction.name, v.index): (a.is_heap, v.offset) for a in ours for v in a.values}
    placed = {p.key: (a.is_heap, p.offset) for a in theirs for p in a.places if p.size}
    wrong = tuple(key for key, place in placed.items() if lies.get(key) != place)
    mine = {(frozenset((v.instruction.name, v.index) for v in a.values), a.size) for a in ours if not a.is_heap}
    others = {(frozenset(place.key for place in a.places), a.size) for a in theirs if not a.is_heap}
    temporaries, expected = sum(a.size for a in ours if a.is_heap), sum(a.size for a in theirs if a.is_heap)
    return Verdict(temporaries, expected, len(placed), wrong, mine == others)


def generation_in(path: Path) -> str | None:
    """The TPU generation in the name of a folder around a file."""
    found = next((match for part in reversed(path.parts) if (match := _GENERATION.search(part))), None)
    return found[1] if found else None


def tpu_dumps(folders: Iterable[Path]) -> Iterator[Dump]:
    """The dumps below some folders that the compiler's assignment lies beside."""
    for folder in folders:
        for path in sorted(folder.rglob("*after_optimizations.txt*")):
            stem = path.name.removesuffix(".gz").removesuffix(".txt")
            if "extracted" not in path.name and any(path.parent.glob(f"{stem}-buffer-assignment.txt*")):
                yield Dump(path)


def judged(dump: Dump) -> Mapping[int, Verdict]:
    """The verdicts on a dump."""
    memory = memory_analysis(parse_module(dump.text), target="tpu", generation=generation_in(dump.path))
    return verdicts(memory, compiler_assignment(dump))


def main(folders: Iterable[Path]) -> None:
    counts: dict[int, Counter[str]] = {}
    for dump in tpu_dumps(folders):
        for space, found in judged(dump).items():
            count = counts.setdefault(space, Counter())
            count.update(dumps=1, totals=found.temporaries == found.expected, whole=found.is_whole)
            count.update(values=found.values, placed=found.values - len(found.wrong))
            if not found.is_whole and space not in (1, 3):
                print(f"{dump.path}: S({space}) {found.temporaries} for {found.expected}, wrong {found.wrong[:4]}")
    for space, count in sorted(counts.items()):
        print(f"S({space}): " + ", ".join(f"{name} {number}" for name, number in count.items()))


if __name__ == "__main__":
    main(map(Path, sys.argv[1:]))
