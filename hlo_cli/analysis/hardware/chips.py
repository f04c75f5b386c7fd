"""Lookup of known chips and TPU generations by name; the tables are loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from hlo_cli.source import HloError, nearest

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_table import Chip, TpuGeneration

USUAL_TPU: Final = "v5e"
"""The generation assumed if the text does not determine it; it has the most common sizes."""
OLD_TPU: Final = "v3"
"""The one assumed if tiles are those of v2 and v3."""

# What product names carry around the chip's own name, in device_kind of JAX and in product pages.
_VENDORS = re.compile(r"google|cloud|tpu|gpu|intel|nvidia|tesla|amd|instinct|geforce|[^a-z0-9]")


def known_chips() -> tuple[Chip, ...]:
    """Returns all known chips.

    >>> [chip.name for chip in known_chips()][:3]
    ['v2', 'v3', 'v4']
    """
    from hlo_cli.analysis.hardware import chip_table, gpus

    return (*chip_table.TPUS, *gpus.NVIDIA_GPUS, *gpus.AMD_AND_INTEL_GPUS)


def find_chip(name: str) -> Chip:
    """Returns the chip of a name in any form; raises HloError with the nearest name or with all possible ones.

    >>> find_chip("TPU v5 lite").name, find_chip("NVIDIA H100 80GB HBM3").name
    ('v5e', 'h100')
    >>> find_chip("v5")
    Traceback (most recent call last):
        ...
    hlo_cli.source.HloError: error: ambiguous chip 'v5': v5e or v5p
    """
    word, all_chips = _plain(name), known_chips()
    chips = _by_name(all_chips)
    if (chip := chips.get(word)) is not None:
        return chip
    # A prefix that continues in one way only is a name: "h10" is h100, "v5" is v5e or v5p.
    longer = dict.fromkeys(chip.name for spelling, chip in chips.items() if word and spelling.startswith(word))
    shortest = min(longer, key=len, default="")
    if not all(_plain(each).startswith(_plain(shortest)) for each in longer):
        *most, last = longer
        serial = "," if len(most) > 1 else ""
        raise HloError(f"ambiguous chip '{name}': {', '.join(most)}{serial} or {last}")
    near = tuple(longer)[:1] or _similar(word, chips)
    listed = f"available: {', '.join(chip.name for chip in all_chips)}"
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else listed
    raise HloError(f"unknown chip '{name}'", hint=hint)


def tpu_generations() -> tuple[TpuGeneration, ...]:
    """Returns the TPU generations, oldest first.

    >>> [generation.name for generation in tpu_generations()]
    ['v2', 'v3', 'v4', 'v5e', 'v5p', 'v6e', '7x']
    """
    from hlo_cli.analysis.hardware import chip_table

    return tuple(dict.fromkeys(chip.tpu for chip in chip_table.TPUS if chip.tpu is not None))


# A command asks for one chip, for each kernel.
@lru_cache(maxsize=64)
def is_tpu(name: str) -> bool:
    """Whether a name is exactly that of a known TPU.

    >>> is_tpu("v5e"), is_tpu("h100"), is_tpu("my chip")
    (True, False, False)
    """
    return any(chip.name == name and chip.target == "tpu" for chip in known_chips())


@lru_cache(maxsize=64)
def cores_together(name: str) -> int:
    """The number of cores that share the rates of a device of a TPU; 1 for other names.

    >>> cores_together("v5p"), cores_together("v5e")
    (2, 1)
    """
    return next((chip.cores for chip in known_chips() if chip.name == name), 1)


def tpu_generation(name: str) -> TpuGeneration:
    """Returns the TPU generation of a name in any form; raises HloError if it is unknown.

    >>> [tpu_generation(name).name for name in ("v7x", "TPU v5 lite", "V4", "6e")]
    ['7x', 'v5e', 'v4', 'v6e']
    """
    from hlo_cli.analysis.hardware import chip_table

    plain, known = _plain(name), _by_name(chip_table.TPUS)
    chip = known.get(plain) or known.get(f"v{plain}")
    if chip is not None and chip.tpu is not None:
        return chip.tpu
    names = [generation.name for generation in tpu_generations()]
    near = nearest(f"v{plain.removeprefix('v')}", names)
    listed = f"available: {', '.join(names)}"
    hint = f"did you mean '{near}'? {listed}" if near else listed
    raise HloError(f"unknown TPU generation '{name}'", hint=hint)


def has_large_tiles(generation: str) -> bool:
    """Returns whether the smallest tile of a generation is two words high, and narrow types take a byte.

    >>> has_large_tiles("v3"), has_large_tiles(USUAL_TPU)
    (True, False)
    """
    return generation != USUAL_TPU and tpu_generation(generation).has_large_tiles  # the most common one needs no table


# Reports ask for the same few names for every instruction; the bound is chosen, not measured.
@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    """Returns a chip's name without vendor, spaces, and punctuation."""
    return _VENDORS.sub("", name.casefold())


def _similar(word: str, chips: Mapping[str, Chip]) -> tuple[str, ...]:
    """The chips that were probably meant: of those with the most letters in common at the beginning, all that are near.

    The beginning names the family: v5x is v5e or v5p rather than 7x, which is v7x too.

    >>> _similar("v5x", _by_name(known_chips())), _similar("nosuch", _by_name(known_chips()))
    (('v5e', 'v5p'), ())
    """
    common = {spelling: _common_letters(word, spelling) for spelling in chips}
    most = max(common.values(), default=0)
    family = [spelling for spelling in chips if common[spelling] == most]
    found = [spelling for spelling in family if most > 1 and nearest(word, (spelling,))]
    if not found and (near := nearest(word, chips)):
        found = [near]
    return tuple(dict.fromkeys(chips[spelling].name for spelling in found))[:_MOST_MEANT]


def _common_letters(one: str, other: str) -> int:
    """The number of letters in common at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


_MOST_MEANT: Final = 2  # more are a list to read, not a suggestion


# One entry a table: all chips, and the TPUs.
@lru_cache(maxsize=8)
def _by_name(chips: Sequence[Chip]) -> Mapping[str, Chip]:
    """Returns the chips by plain name and alias."""
    return {_plain(name): chip for chip in chips for name in (chip.name, *chip.aliases)}
