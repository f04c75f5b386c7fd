"""The keys of `--by`: those of a module or, for `pass`, those that its per-pass dumps give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from hlo_cli.analysis.origin.origins import LATER_KEY, PROGRAM_KEY, By, Keys, keys_of
from hlo_cli.commands.shared.io_options import InputOptions
from hlo_cli.commands.shared.load import Loaded, read_one
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module


def keys_for(loaded: Loaded, by: By) -> Keys:
    """The keys of a module's values; HloError for `pass` if there are no per-pass dumps next to the module."""
    return keys_of(loaded.module, by, _passes(loaded) if by == "pass" else None)


def _passes(loaded: Loaded) -> Mapping[Instruction, str]:
    """The pass that made each instruction: the one before the first dump from which on it is in all dumps."""
    from hlo_cli.analysis.origin.origins import first_dumps
    from hlo_cli.inputs.dumps import earlier_dumps, pass_between

    read = loaded.input
    dumps = [] if read.path is None or read.dump is None else earlier_dumps(read.path, read.dump)
    if read.dump is None or not dumps:
        raise HloError(
            "--by pass requires per-pass dumps in the directory of the dump",
            hint="create them with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=.*'",
        )
    stages = [*(stage for _, stage in dumps), read.dump.stage]
    names = [
        PROGRAM_KEY,
        *(pass_between(before, stage).name for before, stage in pairwise(stages)),
    ]
    if pass_between(stages[-2], stages[-1]).number is None:
        names[-1] = LATER_KEY
    back = first_dumps(loaded.module, _modules(reversed(dumps)))
    return {instruction: names[len(dumps) - number] for instruction, number in back.items()}


def _modules(dumps: Iterable[tuple[str, str]]) -> Iterator[Module]:
    from hlo_cli.inputs.input import read_inputs

    for path, _ in dumps:
        for each in read_inputs([path])[:1]:
            yield read_one(each, InputOptions()).module
