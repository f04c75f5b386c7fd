"""The GPU for which `hlo fuse` changes a module: that of --chip, else the one that the dump was compiled for."""

from __future__ import annotations

from dataclasses import replace

from hlo_cli.commands.fuse.options import FuseOptions
from hlo_cli.commands.fuse_gpu.changes import several_chips_error
from hlo_cli.commands.fuse_gpu.chips import check_target, gpu_of_dump, is_for_gpu
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.commands.options.io_options import OutputOptions
from hlo_cli.source import HloError


def options_for_gpu(options: FuseOptions, loaded: Loaded, output: OutputOptions) -> FuseOptions:
    """The options with the GPU that a dump was compiled for, if no chip is given; HloError for a module of a TPU."""
    changes = options.changes
    for chip in changes.gpus if changes.apply else ():
        check_target(loaded, chip)
    if len(changes.gpus) > 1 and output.is_module:
        raise HloError(several_chips_error(changes.gpus), hint="select one chip with --chip NAME")
    if options.chip or options.chip_file or changes.switches or not is_for_gpu(loaded):
        return options
    found = gpu_of_dump(loaded)
    return options if found is None else replace(options, chip=found, is_chip_of_dump=True)
