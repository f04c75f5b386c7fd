"""What priority fusion wrote about a module, in the file next to its dump."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from hlo_cli.analysis.hardware.target import target_of
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.dataclass import dataclass
from hlo_cli.inputs.dumps import earlier_dumps, fusion_dump_of
from hlo_cli.inputs.input import read_inputs, read_plain
from hlo_cli.ir.compiler_messages import FusionProcess
from hlo_cli.ir.module import Module
from hlo_cli.read_input import read_input
from hlo_cli.source import HloError

FLAGS: Final = "--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=priority-fusion"
"""The flags with which XLA:GPU writes the file: jaxlib 0.10.2 does so only if priority-fusion is a dumped pass."""
_AFTER: Final = "after_priority-fusion"


@dataclass(frozen=True, slots=True)
class FusionDump:
    """The decisions of the pass, and the file they are from."""

    process: FusionProcess
    path: str
    after: Module | None = None
    """The module right after the pass, from its per-pass dump; None without it."""


def fusion_dump(loaded: Loaded) -> FusionDump | None:
    """The decisions of priority fusion next to a dump, None without the file; HloError if it cannot be read."""
    given = loaded.input
    path = fusion_dump_of(given.path, given.dump) if given.path is not None and given.dump is not None else None
    if path is None:
        return None
    from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process

    return FusionDump(parse_fusion_process(read_plain(path)), path, _module_after(loaded))


def _module_after(loaded: Loaded) -> Module | None:
    """The module right after priority fusion, if its per-pass dump is next to the dump and can be read."""
    given = loaded.input
    if given.path is None or given.dump is None:
        return None
    with suppress(HloError, OSError):
        for path, stage in earlier_dumps(given.path, given.dump):
            if _AFTER in stage:
                return next((read_input(each) for each in read_inputs([path])), None)
    return None


def is_for_gpu(loaded: Loaded) -> bool:
    """Whether a module was compiled for a GPU, by its text or by the name of its file."""
    return target_of(loaded.module) == "gpu" or (loaded.input.target or "").endswith("gpu")
