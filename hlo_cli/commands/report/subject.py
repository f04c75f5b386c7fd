"""What a page is about: the title with module, chip, and devices, and the line of facts below it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

from hlo_cli.analysis.hardware.chip_specs import chip_in
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import devices_of
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.inputs.input import target_texts
from hlo_cli.ir.module import Module
from hlo_cli.report.numbers import format_bytes, format_count
from hlo_cli.source import HloError


def title_of(loaded: Loaded, chip: str | None) -> str:
    """The module, the chip that is given or that the dump names, and the number of devices.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> header, entry = "HloModule jit_f, num_partitions=8", "ENTRY e_spmd { ROOT p = f32[9]{0:T(128)} parameter(0) }"
    >>> module = parse_module(f"{header}  {entry}")
    >>> title_of(Loaded(module, Input(module.source, None)), "v5e")
    'jit_f on TPU v5e, one of 8 partitions'
    """
    module = loaded.module
    name = "part of a module" if module.is_part else module.name
    place = platform_of(loaded, chip)
    return f"{name}{f' on {place}' if place else ''}{_devices(module)}"


def platform_of(loaded: Loaded, chip: str | None) -> str:
    """The chip, such as `TPU v5e` or `H100`, else the kind of chip; empty if the dump does not determine it.

    A chip of another kind than the module's target is not that of the module.
    """
    target = target_of(loaded.module)
    for name in (chip, chip_in(target_texts(loaded.input))):
        known = None
        if name is not None:
            try:
                known = find_chip(name)
            except HloError:
                return f"{target.upper()} {name}" if target else name  # a chip of --chip-file
        if known is not None and target in (None, known.target):
            return f"TPU {known.name}" if known.target == "tpu" else known.name.upper()
    return target.upper() if target else ""


def _devices(module: Module) -> str:
    devices = devices_of(module)
    if not devices.is_stated or module.is_part:
        return ""
    part = "one of " if is_partitioned(module) else ""
    words = f", {part}{devices.partitions:,} partitions" if devices.partitions > 1 else ""
    return f"{words}, {devices.replicas:,} replicas" if devices.replicas > 1 else words


def details_of(loaded: Loaded, steps: int) -> str:
    """The dump, its stage, and its date; the sizes of the module, its arguments, and its results."""
    return " · ".join(_details(loaded, steps))


def _details(loaded: Loaded, steps: int) -> Iterator[str]:
    module = loaded.module
    yield dump_name(loaded.input.path)
    if loaded.input.stage and loaded.input.stage not in dump_name(loaded.input.path):
        yield loaded.input.stage
    if date := date_of(loaded.input.path):
        yield date
    count = format_count(module.instruction_count, "instructions")
    yield f"{count} in {format_count(len(module.computations), 'computations')}"
    yield format_count(steps, "steps")
    yield from _signature(module)


def _signature(module: Module) -> Iterator[str]:
    parameters, root = module.entry.parameters, module.entry.root
    bytes_ = sum(parameter.shape.padded_bytes for parameter in parameters)
    yield f"{format_count(len(parameters), 'arguments')} ({format_bytes(bytes_)})" if parameters else "no arguments"
    if root is None:
        return
    leaves = [leaf for _, leaf in root.shape.leaves]
    results = f"{format_count(len(leaves), 'results')} ({format_bytes(sum(leaf.padded_bytes for leaf in leaves))})"
    aliased = len(module.input_output_alias)
    verb = "aliases" if aliased == 1 else "alias"
    yield f"{results}, {aliased:,} of which {verb} arguments" if aliased else results


def dump_name(path: str | None) -> str:
    """The dump without directories; a file that is named by its stage alone follows the name of its directory.

    >>> dump_name("/home/ada/dumps/step/after_optimizations.txt.gz"), dump_name("/tmp/module_1.f.txt"), dump_name("-")
    ('step/after_optimizations.txt.gz', 'module_1.f.txt', 'stdin')
    """
    if path is None or path == "-":
        return "stdin"
    folder, name = os.path.split(path)
    is_stage = name.startswith(("before_optimizations", "after_optimizations", "compiled_as_text"))
    parent = os.path.basename(os.path.abspath(folder)) if is_stage else ""
    return f"{parent}/{name}" if parent else name


def date_of(path: str | None) -> str:
    """The day on which a dump was written, in UTC; empty if it is not a file.

    The environment variable SOURCE_DATE_EPOCH replaces it, as in reproducible builds.

    >>> date_of("/no/such/file"), date_of(None)
    ('', '')
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if path is None or not os.path.isfile(path):
        return ""
    seconds = int(epoch) if epoch.isascii() and epoch.isdigit() and len(epoch) < 12 else os.path.getmtime(path)
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
