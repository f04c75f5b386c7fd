"""`hlo tile-index`: the address of an element, and the element at an address."""

from __future__ import annotations

from typing import Any

import click

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.click_command import Command, with_options
from hlo_cli.commands.options.io_options import io_of, io_options
from hlo_cli.commands.tile_index.answer import INDEX, answer
from hlo_cli.commands.tile_index.options import TileIndexOptions

HELP = """\
Map array elements to memory addresses and back.

SHAPE is a shape or an instruction in a dump (DUMP:NAME, or DUMP:NAME{1} for a
tuple element). INDEX is an index (3,5), a slice (0:4,128), a file of indices
(text, CSV, JSON Lines, or .npy), or - for stdin.
"""
EXAMPLES = (
    "hlo tile-index 'bf16[300,70]{1,0:T(8,128)(2,1)}' 37,5 299,69",
    "hlo tile-index --explain 'f32[3,5]{1,0:T(2,2)}' 2,3",
    "hlo tile-index --inverse --bytes 'bf16[300,70]{1,0:T(8,128)(2,1)}' 0x1a40",
    "hlo tile-index 'f32[3,5]{1,0:T(2,2)}' --all -o map.npy",
    "hlo tile-index 'f32[3,5]{1,0}' 'f32[3,5]{0,1}'",
)
DETAILS = """\
With two shapes, or for a copy, bitcast, reshape, or transpose in a dump, show
which elements move between the two layouts.
"""


@click.command(
    cls=Command,
    help=HELP,
    examples=EXAMPLES,
    details=DETAILS,
    context_settings={"ignore_unknown_options": True},  # -1,0 is an index
)
@click.argument("shape", metavar="SHAPE", shell_complete=completion.files)
@click.argument("questions", nargs=-1, metavar="[SHAPE] INDEX...", shell_complete=completion.files)
@with_options(TileIndexOptions)
@io_options
def command(shape: str, questions: tuple[str, ...], **given: Any) -> int:
    """Answers for one shape and indices, or for two shapes."""
    output, reading = io_of(given, writes=("npy",))
    for word in (shape, *questions):
        if word.startswith("-") and not INDEX.fullmatch(word):
            raise click.NoSuchOption(word, ctx=click.get_current_context())
    options = TileIndexOptions(**given)
    _ = options.address  # an invalid address is reported before anything is read
    return answer(shape, questions, options, output, reading)
