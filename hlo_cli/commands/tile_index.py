"""`hlo tile-index`: where an element lies, and what lies at an address."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_cli.commands.options import finish, input_options, output_of, output_options, reading_of, write_bytes
from hlo_cli.commands.shape_argument import is_written, named_in
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.curves import IntArray
    from hlo_cli.commands.options import Output, Reading
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.shape import Shape

_INDEX = re.compile(r"[\s0-9a-fA-FxX,:.…_+()\[\]-]*+")

HELP = """Where an element lies, and what lies at an address.

SHAPE is a shape as text, or DUMP:NAME for an instruction's, DUMP:NAME{1} for an element of its tuple. INDEX is 3,5 or
a slice, as 0:4,128 or :,5; a file of them (one a line, CSV, jsonl or .npy), or - for standard input. With a second
SHAPE, or for a copy, bitcast, reshape or transpose in a dump, it says what moves between the two layouts.

\b
Examples:
  hlo tile-index 'bf16[300,70]{1,0:T(8,128)(2,1)}' 37,5 299,69
  hlo tile-index --inverse --bytes 'bf16[300,70]{1,0:T(8,128)(2,1)}' 0x1a40
  hlo tile-index --explain 'f32[3,5]{1,0:T(2,2)}' 2,3
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked about the elements."""

    inverse: bool = False
    as_bytes: bool = False
    explain: bool = False
    everything: bool = False
    verify: bool = False
    draw: bool = False
    base: int = 0
    bits: int | None = None


@click.command(help=HELP, context_settings={"ignore_unknown_options": True})  # -1,0 is an index
@click.argument("shape", metavar="SHAPE")
@click.argument("questions", nargs=-1, metavar="[SHAPE] INDEX...")
@click.option("--inverse", is_flag=True, help="From slots, or bytes with --bytes, to elements.")
@click.option("--bytes", "as_bytes", is_flag=True, help="Count in bytes: what --inverse takes, what a .npy file gets.")
@click.option("--explain", is_flag=True, help="The formula with the numbers of each step.")
@click.option("--all", "everything", is_flag=True, help="Every element; with --inverse every slot.")
@click.option("--verify", is_flag=True, help="Compute the whole map a second way: pad, reshape and transpose.")
@click.option("--draw", is_flag=True, help="Draw the array with the asked elements marked.")
@click.option("--base", metavar="ADDRESS", default="0", help="Where the buffer begins; addresses count from there.")
@click.option(
    "--element-bytes", type=click.IntRange(min=1), metavar="N", help="Bytes an element takes, if not its own."
)
@input_options
@output_options
def command(
    shape: str,
    questions: tuple[str, ...],
    inverse: bool,
    as_bytes: bool,
    explain: bool,
    everything: bool,
    verify: bool,
    draw: bool,
    base: str,
    element_bytes: int | None,
    **options: object,
) -> int:
    """One shape and indices, or two shapes."""
    output, reading = output_of(options), reading_of(options)
    for question in questions:
        if question.startswith("-") and not _INDEX.fullmatch(question):
            raise click.NoSuchOption(question)
    bits = None if element_bytes is None else 8 * element_bytes
    wish = Wish(inverse, as_bytes, explain, everything, verify, draw, _address(base), bits)
    array, instruction = _array(shape, reading)
    second = _second(questions[0], reading) if questions else None
    asks = everything or verify or draw or bool(questions)
    if second is not None or (instruction is not None and not asks):
        return _compare(array, instruction, second, questions[1:], wish, output)
    if not asks:
        if sys.stdin is None or sys.stdin.isatty():
            first = ",".join("0" * array.rank) or "()"
            raise HloError("say which element", hint=f"as in hlo tile-index '{array}' {first}, or --all")
        questions = ("-",)
    return _answer(array, questions, wish, output)


def _answer(array: ArrayShape, asked: Sequence[str], wish: Wish, output: Output) -> int:
    from hlo_cli.commands.tile_index_report import report_of_elements, report_of_slots, selections_of, slots_of

    if wish.inverse:
        slots = slots_of(array, asked, wish)
        if _is_npy(output):
            return _write_npy(array, wish, output, slots=slots)
        return finish(report_of_slots(array, slots, wish), output)
    selections = selections_of(array, asked, wish)
    if _is_npy(output):
        return _write_npy(array, wish, output, selections=[selection.ranges for selection in selections])
    report, code = report_of_elements(array, selections, wish)
    return max(finish(report, output), code)


def _compare(
    array: ArrayShape,
    instruction: Instruction | None,
    second: ArrayShape | None,
    asked: Sequence[str],
    wish: Wish,
    output: Output,
) -> int:
    from hlo_cli.commands.tile_index_compare import report_of_instruction, report_of_pair

    if second is None:
        assert instruction is not None
        return finish(report_of_instruction(instruction), output)
    if wish.inverse or wish.explain or wish.draw or wish.verify:
        raise HloError("between two shapes only INDEX and --all can be asked for")
    return finish(report_of_pair(array, second, asked, everything=wish.everything), output)


def _array(argument: str, reading: Reading) -> tuple[ArrayShape, Instruction | None]:
    from hlo_cli.analysis.indices import addressable

    if is_written(argument):
        return addressable(_written(argument)), None
    named = named_in(argument, reading)
    if named is None:
        what = "is a dump: name an instruction in it" if os.path.exists(argument) else "is no shape and no DUMP:NAME"
        raise HloError(f"{argument} {what}", hint="as in f32[8,128]{1,0}, or dump.txt:fusion.3")
    return addressable(named[1]), named[0]


def _written(text: str) -> Shape:
    """A shape, or that of an instruction; what is wrong with it is found out by the one who explains shapes."""
    from hlo_cli.syntax.shapes import parse_shape

    with suppress(HloError):
        shape = parse_shape(text)
        if isinstance(shape, ArrayShape) and shape.problem is None:
            return shape
    from hlo_cli.commands.layout_of_shape import explained_of

    return explained_of(text).shape


def _second(argument: str, reading: Reading) -> ArrayShape | None:
    if _INDEX.fullmatch(argument):
        return None
    if is_written(argument) or (not os.path.exists(argument) and ":" in argument and named_in(argument, reading)):
        return _array(argument, reading)[0]
    return None


def _address(text: str) -> int:
    try:
        return int(text.replace("_", ""), 0)
    except ValueError:
        raise HloError(f"--base {text} is no address", hint="as in 4096 or 0x1000") from None


def _is_npy(output: Output) -> bool:
    return output.format == "npy" or (output.format == "table" and (output.path or "").endswith(".npy"))


def _write_npy(
    array: ArrayShape,
    wish: Wish,
    output: Output,
    *,
    selections: Sequence[tuple[range, ...]] = (),
    slots: Sequence[range] = (),
) -> int:
    from hlo_cli.analysis.npy import npy_bytes
    from hlo_cli.analysis.selected import elements_in, linear_indices_of

    bits = wish.bits or array.element_bits
    blocks: Iterable[IntArray]
    if wish.inverse:
        sizes: tuple[int, ...] = (sum(map(len, slots)), array.rank)
        if wish.as_bytes:
            if bits % 8:
                raise HloError("a byte holds several elements: a .npy file takes their slots, without --bytes")
            slots = [_of_bytes(numbers, wish.base, bits // 8) for numbers in slots]
        blocks = elements_in(array, slots)
    else:
        sizes = array.sizes if wish.everything else (sum(_count(ranges) for ranges in selections),)
        blocks = _scaled(linear_indices_of(array, selections), wish, array, bits)
    write_bytes(npy_bytes(blocks, sizes), output.path)
    return 0


def _scaled(blocks: Iterable[IntArray], wish: Wish, array: ArrayShape, bits: int) -> Iterator[IntArray]:
    prefix = array.layout.dynamic_shape_metadata_prefix_bytes + wish.base
    for block in blocks:
        yield (block * bits) // 8 + prefix if wish.as_bytes else block


def _of_bytes(numbers: range, base: int, width: int) -> range:
    if len(numbers) == 1:
        return range((numbers[0] - base) // width, (numbers[0] - base) // width + 1)
    raise HloError("slices of bytes have no rows of their own in a .npy file: ask for slots, without --bytes")


def _count(ranges: tuple[range, ...]) -> int:
    from math import prod

    return prod(map(len, ranges))
