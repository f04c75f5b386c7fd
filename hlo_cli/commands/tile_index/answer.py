"""Which elements or positions of which array are asked for, and in which report are they?"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hlo_cli.commands.options.io_options import InputOptions, OutputOptions, conflict_error
from hlo_cli.commands.options.writing import write_report
from hlo_cli.commands.shape.argument import NamedShape, is_hlo_text, is_plain_shape, resolve_name
from hlo_cli.commands.tile_index.options import TileIndexOptions
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.shape import ArrayShape, BufferShape, Shape, UnknownShape
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic, HloError, did_you_mean

# what can only be numbers, slices, or brackets: an option or a shape has other letters
INDEX = re.compile(r"(?:0[xX][0-9a-fA-F_]++|[\s0-9,:.…_+()\[\]-])*+")


@dataclass(frozen=True, slots=True)
class _Array:
    """The array to address, and the instruction that named it."""

    shape: ArrayShape
    named: NamedShape | None
    is_split: bool


def plain_answer(words: Sequence[str]) -> int | None:
    """Answers a shape and indices without options, and returns the exit code; None if there is something else."""
    shape, *questions = words
    # Files of indices are read by the command.
    if not questions or any(os.path.exists(each) for each in questions):
        return None
    if not all(INDEX.fullmatch(each) or is_plain_shape(each) for each in questions):
        return None
    return answer(shape, questions, TileIndexOptions(), OutputOptions(is_format_given=False), InputOptions())


def answer(
    shape: str, questions: Sequence[str], options: TileIndexOptions, output: OutputOptions, reading: InputOptions
) -> int:
    """Answers for one shape and indices, or for two shapes; the exit code."""
    array = _array_named(shape, reading)
    second = _second_array(questions[0], reading) if questions else None
    asks = options.everything or options.verify or options.draw or bool(questions)
    # an instruction of a dump without an index has two arrays to compare: its operand and its result
    compares = second is not None or (array.named is not None and not (asks or options.explain or options.inverse))
    if output.format == "npy" and (compares or options.explain or options.draw or options.verify):
        raise conflict_error(
            "two layouts" if compares else options.picture,
            "--format npy",
            hint="a .npy file holds only a plain index map",
        )
    if compares:
        return _compare(array, second, questions[1:], options, output)
    if not asks:
        if sys.stdin is None or sys.stdin.isatty():
            first = ",".join("0" * array.shape.rank) or "()"
            raise HloError("missing INDEX", hint=f"for example `hlo tile-index '{array.shape}' {first}`, or use --all")
        questions = ("-",)
    return _look_up(array, questions, options, output)


def _look_up(array: _Array, requested: Sequence[str], options: TileIndexOptions, output: OutputOptions) -> int:
    from hlo_cli.commands.tile_index.report import positions_of, report_of_elements, report_of_positions, selections_of

    if options.inverse:
        positions = positions_of(array.shape, requested, options)
        if output.format == "npy":
            from hlo_cli.commands.tile_index.whole_array import write_elements

            write_elements(array.shape, positions, options, output.path)
            return 0
        return _finish(report_of_positions(array.shape, positions, options), array, output)
    selections = selections_of(array.shape, requested, options)
    if output.format == "npy":
        from hlo_cli.commands.tile_index.whole_array import write_addresses

        write_addresses(array.shape, selections, options, output.path)
        return 0
    report, code = report_of_elements(array.shape, selections, options)
    return max(_finish(report, array, output), code)


def _compare(
    array: _Array, second: ArrayShape | None, requested: Sequence[str], options: TileIndexOptions, output: OutputOptions
) -> int:
    from hlo_cli.commands.tile_index.whole_array import report_of_instruction, report_of_pair

    if second is None:
        assert array.named is not None
        return _finish(report_of_instruction(array.named.instruction), array, output)
    if options.inverse or options.explain or options.draw or options.verify:
        name = "--inverse" if options.inverse else options.picture
        raise conflict_error(name, "two shapes", hint="with two shapes, use only INDEX and --all")
    return _finish(report_of_pair(array.shape, second, requested, everything=options.everything), array, output)


def _finish(report: Report, array: _Array, output: OutputOptions) -> int:
    """Writes a report, with notes on the array and on its dump."""
    if array.is_split:
        note = Diagnostic("note", "SC splits the array across memories; addresses refer to the unsplit array")
        report = replace(report, notes=(*report.notes, note))
    named = array.named
    if named is None:
        return write_report(report, output)
    from hlo_cli.commands.modules.loading import input_facts, notes_of, what_was_read

    facts = {**input_facts(named.loaded), "instruction": named.instruction.name}
    report = replace(report, input=facts, notes=(*notes_of(named.loaded), *report.notes))
    module = named.loaded.module
    return write_report(report, output, module.errors, read=what_was_read(module))


def _array_named(argument: str, reading: InputOptions) -> _Array:
    if is_hlo_text(argument):
        return _array_of(_parsed_shape(argument))
    named = resolve_name(argument, reading)
    if named is None:
        dump = argument.rpartition(":")[0] or argument
        # with a bracket it is more likely a mistyped shape than the name of a file
        if "[" not in dump and not os.path.exists(dump) and (dump != argument or os.sep in dump):
            from hlo_cli.inputs.files import missing

            raise missing(dump)
        if os.path.exists(argument):
            raise HloError(
                f"'{argument}' is a dump, not a shape", hint=f"name an instruction in it, such as {argument}:fusion.3"
            )
        raise HloError(
            f"expected a shape or DUMP:NAME, found '{argument}'",
            hint="for example f32[8,128]{1,0} or dump.txt:fusion.3",
        )
    return _array_of(named.shape, named)


def _array_of(shape: Shape, named: NamedShape | None = None) -> _Array:
    from hlo_cli.analysis.layout.layout_steps import addressable

    if isinstance(shape, UnknownShape) and shape.text:
        from hlo_cli.syntax.scanning.error_help import shape_like

        raise HloError(f"{shape} is not an array", hint=did_you_mean(shape_like(shape.text)))
    array = addressable(shape)
    whole = shape.array if isinstance(shape, BufferShape) else shape
    return _Array(array, named, is_split=array != whole)


def _parsed_shape(text: str) -> Shape:
    """A shape, or that of an instruction; errors are left to the code that explains shapes."""
    from hlo_cli.syntax.scanning.shape_reader import parse_shape

    with suppress(HloError):
        shape = parse_shape(text)
        if isinstance(shape, ArrayShape) and shape.problem is None:
            return shape
    from hlo_cli.commands.shape.explained import typed_shape

    return typed_shape(text).shape


def _second_array(argument: str, reading: InputOptions) -> ArrayShape | None:
    if INDEX.fullmatch(argument):
        return None
    if is_hlo_text(argument) or (":" in argument and not os.path.exists(argument) and _is_dump(argument)):
        return _array_named(argument, reading).shape
    return None


def _is_dump(argument: str) -> bool:
    return os.path.exists(argument.rpartition(":")[0])
