"""Which parts of help pages are made from the program's own tables? Chips, fusion rules, and reasons of GPUs.

Only the pages that name them import this file: it reads the tables of chips and of fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.fusion import gpu_rules
from hlo_cli.analysis.fusion.cpu_rules import PAIR_RULES
from hlo_cli.analysis.fusion.gpu_model import TRITON
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chip_table import Chip
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.commands.options.chips import figures_of
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.numbers import format_bytes, format_rate

# --- chips ---
# The generated part of `hlo help chips`: the specifications of every chip with their sources.


_LIST_WIDTH: Final = 76  # 80 columns, less the indentation of both sides
_CELLS_IN_A_LINE: Final = 3  # three cells with their sources fit 76 columns
_CELL: Final = 19  # columns of a name with its amount; the number of the source follows


def chips_markdown() -> str:
    r"""The specifications as a block of text, followed by a list of the numbered sources.

    >>> print(*chips_markdown().partition("v5e  ")[2].splitlines()[:2], sep="\n")
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
        first += f"; {chip.meaning}" if len(first) + len(chip.meaning) < _LIST_WIDTH else f"\n  {chip.meaning}"
    yield first
    cells = [
        f"{name}{f' {amount}':>{_CELL - len(name)}} {f'[{sources.number(source)}]':<4}"
        for name, amount, source in _specifications(chip)
    ]
    for index in range(0, len(cells), _CELLS_IN_A_LINE):
        yield "  " + " ".join(cells[index : index + _CELLS_IN_A_LINE]).rstrip()
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


# --- rules of fusion ---
# The generated part of `hlo help fusion`: the rules for pairs of producer and consumer.


def fusion_rules_markdown() -> str:
    """The rules that `hlo fuse --why-not` names, as a Markdown table.

    >>> fusion_rules_markdown().splitlines()[2]
    '| `loop` | allowed: the producer can be fused into the loop of the consumer |'
    """
    rows = (
        f"| `{rule.name}` | {'allowed: ' if rule.fuses else ''}{rule.explain('the producer', 'the consumer')} |"
        for rule in PAIR_RULES
    )
    return "\n".join(("| rule | meaning |", "|---|---|", *rows))


# --- reasons against a fusion ---
# The generated part of `hlo help gpu-fusion`: XLA's reasons against a fusion, and what they mean.


_SHARED: Final = gpu_rules.SHARED_MEMORY.format(budget=49_152)
_OMITTED: Final = frozenset(
    (
        *(gpu_rules.NO_USERS, gpu_rules.ROOT, gpu_rules.BITCAST_CONSUMER, TRITON, gpu_rules.IN_PLACE_TWICE),
        *(gpu_rules.SEVERAL_MOVES, gpu_rules.IN_PLACE_CONFLICT, gpu_rules.SEVERAL_UPDATES, gpu_rules.UNRECOGNIZED),
        *(gpu_rules.SLICE_SHAPE, gpu_rules.SLICE_INDEX, gpu_rules.SLICE_SHARED),
        *(gpu_rules.DYNAMIC_SLICE_SHAPE, gpu_rules.DYNAMIC_SLICE_INDEX, gpu_rules.DYNAMIC_SLICE_SHARED),
    )
)
"""Reasons that explain themselves, and those about updates in place, which the page explains together."""


def gpu_reasons_markdown() -> str:
    """The reasons as a Markdown list.

    >>> gpu_reasons_markdown().splitlines()[0]
    '- `not fusing because there are only bitcast users`: the readers are bitcasts, such as those before a matmul.'
    """
    meanings = {reason: meaning for reason, meaning in gpu_rules.MEANINGS.items() if reason not in _OMITTED}
    return "\n".join(
        f"- `{_SHARED if reason == gpu_rules.SHARED_MEMORY else reason}`: {meaning}."
        for reason, meaning in meanings.items()
    )
