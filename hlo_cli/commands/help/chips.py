"""`hlo help chips`: the figures of every chip with their sources, and how times are estimated from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.hardware.chip import Chip
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chips import known_chips
from hlo_cli.commands.shared.chips import figures_of
from hlo_cli.ir.memory_space import space_name
from hlo_cli.report.numbers import format_bytes, format_rate

_INTRODUCTION: Final = """\
What one device has, as XLA counts devices, and who says so. Flops are peaks of
dense products by element type; memory is the bandwidth of the main memory,
links and host count one direction, links all together. Where XLA's file and the
vendor differ, the higher peak counts, so that a bound is one, and the bandwidth
of XLA's file, which is what the driver reports.

Times are estimates from these figures, and nothing else:
  a kernel     its flops at the peak of their type, or the bytes that it reads
               and writes at the bandwidth of the main memory, whichever takes
               longer; what lies in faster memories counts as if it did not.
               It is said to take at least what it does if as much as fits
               stays in caches, or in a TPU's VMEM
  a product    f32 in TF32 where a GPU has it, unless operand_precision asks
               for the highest; on a TPU as one product of bf16, for high
               precision three, for the highest six. What algorithm= says
               goes before that
  a transfer   its bytes over its wire. Over links, in a ring of n devices,
               (n - 1)/n of an all-gather, reduce-scatter or all-to-all, twice
               that of an all-reduce (once where switches add up, as those of
               gb200 and gb300), all of other collectives and of sends.
               In main memory, each byte that is read or written there; to
               and from the host, each byte once
  a step       kernels one after the other. A wire carries one transfer at a
               time, in the order of their starts; what is under way when the
               program asks for it is waited for. Loops run as often as their
               text tells, otherwise once
There is no latency in it: small kernels and transfers take longer. What nobody
publishes is unknown, and so is what depends on it.

Figures of your own, for known chips and others, with --chip-file FILE:

  [chip.mine]
  flops = { bf16 = 200e12, f32 = 25e12 }     a second
  memory = 800e9                             bytes a second
  links = 50e9
  host = 15e9
  source = "measured"
"""


def chips_text() -> str:
    r"""The text of the topic.

    >>> print(*chips_text().partition("v5e  ")[2].splitlines()[:2], sep="\n")
     also v5 lite, v5litepod
      HBM            16 GiB  https://docs.cloud.google.com/tpu/docs/v5e
    """
    return "\n".join((_INTRODUCTION, *(line for chip in known_chips() for line in _lines(chip))))


def _lines(chip: Chip) -> Iterator[str]:
    yield f"{chip.name}   also {', '.join(chip.aliases)}" + (f"; {chip.meaning}" if chip.meaning else "")
    for space, capacity in chip.memories.items():
        yield _line(space_name(space, chip.target), format_bytes(capacity.bytes), capacity.source)
    if chip.usable is not None:
        yield _line("usable", format_bytes(chip.usable.bytes), chip.usable.source)
    for name, unit, rate in figures_of(chip_spec(chip.name)):
        yield _line(name, format_rate(rate.per_second, "flop" if unit == "flop" else "B"), rate.source)
    for kind, rate in chip_spec(chip.name).fastest.items():
        yield _line(f"{kind} seen", format_rate(rate.per_second, "flop"), rate.source)
    yield ""


def _line(name: str, amount: str, source: str) -> str:
    return f"  {name:<7}{amount:>14}  {source}"
