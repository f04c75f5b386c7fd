"""The values of a run as a `.npz` archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hlo_cli.analysis.evaluate.archive import npz_bytes
from hlo_cli.analysis.evaluate.run import Run, arrays_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module


def archive(run: Run, module: Module, watched: Sequence[Instruction]) -> Iterator[bytes]:
    """One array for each result, `result_0` and so on, or for each value that was asked for, by its name.

    With the results are the values of outfeeds, `outfed_0` and so on.
    """
    root = module.entry.root
    assert root is not None
    outfed = {
        _name("outfed", (at, *index)): array
        for at, (instruction, value) in enumerate(run.outfed)
        for index, array, _ in arrays_of(value, instruction.operand_shape(0))
    }
    if not watched:
        results = {_name("result", index): array for index, array, _ in arrays_of(run.result, root.shape)}
        yield npz_bytes(results | outfed)
        return
    yield npz_bytes(
        {
            _name(instruction.name, (*((at,) if len(values) > 1 else ()), *index)): array
            for instruction in watched
            for values in (run.watched[instruction],)
            for at, value in enumerate(values)
            for index, array, _ in arrays_of(value, instruction.shape)
        }
    )


def _name(name: str, index: tuple[int, ...]) -> str:
    return "_".join((name, *map(str, index)))
