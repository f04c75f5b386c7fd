"""The GPUs whose compiler decides: those of --chip, else the one that a dump was compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hlo_cli.analysis.hardware.chip_specs import chip_in, gpu_device, gpu_with
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.modules.loading import Loaded, partition_notes
from hlo_cli.inputs.input import target_texts
from hlo_cli.ir.compiler_messages import FusionProcess
from hlo_cli.source import HloError

_CORES: Final = re.compile(r"\bcore_count: (\d{1,9})\b")
_BANDWIDTH: Final = re.compile(r"\bmemory_bandwidth: (\d{1,18})\b")


def gpus_named(names: tuple[str, ...]) -> tuple[str, ...]:
    """The chips of --chip if they are GPUs, by their usual names; empty if one is not, HloError for unknown ones.

    >>> gpus_named(("NVIDIA H100 80GB HBM3", "b200")), gpus_named(("v5e",))
    (('h100', 'b200'), ())
    """
    chips = tuple(find_chip(name) for name in names)
    other = next((chip for chip in chips if chip.target != "gpu"), None)
    if other is None:
        return tuple(dict.fromkeys(chip.name for chip in chips))
    if len(chips) > 1:
        raise HloError(f"{other.name} is not a GPU", hint="--chip takes several chips if all of them are GPUs")
    return ()


def gpu_of_dump(loaded: Loaded, process: FusionProcess | None = None) -> str | None:
    """The GPU that a module was compiled for, by the figures that XLA wrote next to it; None if they are not known."""
    if process is not None and (found := gpu_with(process.core_count, process.memory_bandwidth)) is not None:
        return found
    texts = tuple(target_texts(loaded.input))
    for text in texts:
        cores, bandwidth = _CORES.search(text), _BANDWIDTH.search(text)
        if cores and bandwidth and (found := gpu_with(int(cores[1]), int(bandwidth[1]))) is not None:
            return found
    name = chip_in(texts)
    return name if name is not None and gpus_named((name,)) else None


def is_for_gpu(loaded: Loaded) -> bool:
    """Whether a module was compiled for a GPU, by its text, the name of its file, or the files next to it."""
    target = target_of(loaded.module)
    if target is not None:
        return target == "gpu" or (loaded.input.target or "").endswith("gpu")
    return (loaded.input.target or "").endswith("gpu") or gpu_of_dump(loaded) is not None


def is_dump_of(process: FusionProcess, chip: str) -> bool:
    """Whether XLA wrote its decisions while it compiled for this chip, by its memory and its cores."""
    device = gpu_device(chip)
    return process.memory_bandwidth == device.memory_bandwidth and process.core_count in (0, device.core_count)


def check_target(loaded: Loaded, chip: str) -> None:
    """Raises HloError for a GPU without figures, and for a module of a TPU, whose fusions and layouts no GPU has."""
    gpu_device(chip)
    if target_of(loaded.module) == "tpu":
        message = f"{chip} is a GPU, but the module was compiled for TPU"
        raise HloError(message, hint="use a module from before its fusion passes, or a dump compiled for a GPU")


def state_notes(loaded: Loaded, chip: str) -> Iterator[str]:
    """Notes on a chip without a compiler, and on a module that is not the input of XLA's fusion passes for it."""
    module = loaded.module
    if not gpu_device(chip).is_checked:
        yield f"the figures of {chip} are those of XLA's target file; no compiler for it was compared with"
    if target_of(module) == "cpu" and not (loaded.input.target or "").endswith("gpu"):
        yield f"{chip} is a GPU, but the module was compiled for CPU"
    if module.is_scheduled:
        yield "the module is scheduled: XLA's fusion passes have run already"
    elif loaded.input.stage == "before_optimizations":
        yield "this is the program before optimization: XLA runs many passes before it fuses"
    yield from (note.message for note in partition_notes(loaded))


def chip_note(chip: str) -> str:
    """A note that a dump, not --chip, names the chip.

    >>> chip_note("h100")
    'the dump was compiled for h100; --chip NAME selects another GPU'
    """
    return f"the dump was compiled for {chip}; --chip NAME selects another GPU"
