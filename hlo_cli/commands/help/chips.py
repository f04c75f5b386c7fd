"""The generated part of `hlo help chips`: the specifications of every chip with their sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.commands.options.chips import figures_of
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.numbers import format_bytes, format_rate

_WIDTH: Final = 76
_CELLS_IN_A_LINE: Final = 3
_CELL: Final = 19


def markdown() -> str:
    r"""The specifications as a block of text, followed by a list of the numbered sources.

    >>> print(*markdown().partition("v5e  ")[2].splitlines()[:2], sep="\n")
     aliases: v5 lite, v5litepod
      HBM          16 GiB [9]  VMEM        128 MiB [2]  SMEM          1 MiB [2]
    """
    sources = _Sources()
    lines = "\n".join(line for chip in known_chips() for line in _lines(chip, sources))
    listed = "\n".join(f"{number}. {source}" for source, number in sources.numbers.items())
    return f"```text\n{lines.rstrip()}\n```\n\n## Sources\n\n{listed}\n"


class _Sources:
    """Numbers for sources, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, source: str) -> int:
        return self.numbers.setdefault(source, len(self.numbers) + 1)


def _lines(chip: Chip, sources: _Sources) -> Iterator[str]:
    first = f"{chip.name}   aliases: {', '.join(chip.aliases)}"
    if chip.meaning:
        first += f"; {chip.meaning}" if len(first) + len(chip.meaning) < _WIDTH else f"\n  {chip.meaning}"
    yield first
    cells = [
        f"{name}{amount:>{_CELL - len(name)}} {f'[{sources.number(source)}]':<4}"
        for name, amount, source in _specifications(chip)
    ]
    for at in range(0, len(cells), _CELLS_IN_A_LINE):
        yield "  " + " ".join(cells[at : at + _CELLS_IN_A_LINE]).rstrip()
    yield ""


def _specifications(chip: Chip) -> Iterator[tuple[str, str, str]]:
    """Names, amounts, and sources of what is known about a chip."""
    for space, capacity in chip.memories.items():
        yield space_name(space, chip.target), format_bytes(capacity.bytes), capacity.source
    if chip.usable is not None:
        yield "usable", format_bytes(chip.usable.bytes), chip.usable.source
    for name, unit, rate in figures_of(chip_spec(chip.name)):
        yield name, format_rate(rate.per_second, "flop" if unit == "flop" else "B"), rate.source
    for kind, rate in chip_spec(chip.name).fastest.items():
        yield f"{kind} max", format_rate(rate.per_second, "flop"), rate.source
