"""The values of a run as a `.npz` archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hlo_cli.analysis.evaluate.arguments import npz_bytes
from hlo_cli.analysis.evaluate.run import Run
from hlo_cli.analysis.semantics.typed_values import arrays_of
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.semantics.typed_values import Array


def archive(run: Run, module: Module, watched: Sequence[Instruction], max_bytes: int) -> Iterator[bytes]:
    """One array for each result, `result_0` and so on, or for each value that was asked for, by its name.

    With the results are the values of outfeeds, `outfed_0` and so on. HloError if all of them exceed `max_bytes`: a
    value may be much larger than the memory it takes, such as one that was broadcast.
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
        yield _bytes(results | outfed, max_bytes)
        return
    yield _bytes(
        {
            _name(instruction.name, (*((at,) if len(values) > 1 else ()), *index)): array
            for instruction in watched
            for values in (run.watched[instruction],)
            for at, value in enumerate(values)
            for index, array, _ in arrays_of(value, instruction.shape)
        },
        max_bytes,
    )


def _bytes(arrays: Mapping[str, Array], max_bytes: int) -> bytes:
    size = sum(each.nbytes for each in arrays.values())
    if size > max_bytes:
        raise HloError(
            f"the values to write have {size / 2**30:.3g} GiB, above the limit of {max_bytes / 2**30:.3g} GiB",
            hint="use --max-memory SIZE to raise the limit",
        )
    return npz_bytes(arrays)


def _name(name: str, index: tuple[int, ...]) -> str:
    return "_".join((name, *map(str, index)))
