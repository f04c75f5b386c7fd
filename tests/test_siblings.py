"""XLA's files about memory: nothing in them is lost, they agree with each other and with the module, damage is told."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from dumps import FIXTURES, Dump, compiled_dumps
from hlo_cli import parse_module
from hlo_cli.inputs.dumps import SiblingKind
from hlo_cli.inputs.input import read_inputs, read_plain, read_sibling
from hlo_cli.ir.buffer_assignment import BufferAssignment
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, subshape
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.byte_sizes import byte_number, byte_text
from hlo_cli.syntax.compiler_files.memory_files import parse_buffer_assignment, parse_buffer_values, parse_live_ranges
from hlo_cli.syntax.compiler_files.usage_report import parse_memory_usage_report, print_memory_usage_report
from share import every
from sibling_texts import buffer_assignment_text, buffer_values_text, live_ranges_text, memory_usage_report
from timing import is_linear

DUMPS = compiled_dumps()
WITH_VALUES = [dump for dump in DUMPS if list(dump.path.parent.glob("*-buffer-assignment-values.txt*"))]
each_dump = pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: f"{dump}-{dump.path.name.partition('.after')[0]}")
each_with_values = pytest.mark.parametrize("dump", WITH_VALUES, ids=lambda dump: f"{dump}-{dump.path.name[:11]}")


def source(dump: Dump, kind: str) -> Source:
    return Source(f"{dump}-{kind}", dump.sibling(kind))


@cache
def module_of(path: Path) -> Module:
    return parse_module(Dump(path).text)


@cache
def assignment_of(path: Path) -> BufferAssignment:
    return parse_buffer_assignment(source(Dump(path), "buffer-assignment"), module_of(path))


@each_dump
def test_a_buffer_assignment_is_read_whole(dump: Dump) -> None:
    assignment = assignment_of(dump.path)
    assert buffer_assignment_text(assignment) == dump.sibling("buffer-assignment")
    assert not assignment.notes


@each_dump
def test_live_ranges_are_read_whole(dump: Dump) -> None:
    ranges = parse_live_ranges(source(dump, "live-range"), module_of(dump.path))
    assert live_ranges_text(ranges) == dump.sibling("live-range")
    assert not ranges.notes


@each_with_values
def test_values_are_read_whole(dump: Dump) -> None:
    text = source(dump, "buffer-assignment-values")
    values = parse_buffer_values(text, module_of(dump.path))
    assert buffer_values_text(values, text) == text.text
    assert not values.notes


@each_dump
def test_a_memory_usage_report_is_read_whole(dump: Dump) -> None:
    report = parse_memory_usage_report(source(dump, "memory-usage-report"))
    assert print_memory_usage_report(report) == dump.sibling("memory-usage-report")
    assert not report.notes


@each_dump
def test_the_report_is_made_again_from_the_assignment(dump: Dump) -> None:
    report = memory_usage_report(assignment_of(dump.path))
    assert print_memory_usage_report(report) == dump.sibling("memory-usage-report")


@each_dump
def test_all_places_are_in_the_module_with_their_shapes(dump: Dump) -> None:
    for buffer in assignment_of(dump.path).logical_buffers:
        place = buffer.defined_at
        assert place.instruction is not None
        assert place.instruction.name == place.name
        assert subshape(place.instruction.shape, place.shape_index) == buffer.shape
        if isinstance(buffer.shape, ArrayShape) and dump.platform == "tpu":
            assert buffer.color == buffer.shape.memory_space


@each_dump
def test_allocations_hold_their_buffers(dump: Dump) -> None:
    assignment = assignment_of(dump.path)
    for allocation in assignment.allocations:
        for assigned in allocation.assigned:
            assert 0 <= assigned.offset_bytes <= assigned.offset_bytes + assigned.size_bytes <= allocation.size_bytes
            buffer = assignment.logical_buffer(assigned.logical_buffer_id)
            assert buffer is not None
            assert buffer.color == allocation.color
    assert sum(len(allocation.assigned) for allocation in assignment.allocations) == len(assignment.logical_buffers)


@each_dump
def test_the_parameters_of_the_module_have_allocations(dump: Dump) -> None:
    module, assignment = module_of(dump.path), assignment_of(dump.path)
    parameters = [each for each in assignment.allocations if each.parameter_number is not None]
    assert {each.parameter_number for each in parameters} == set(range(len(module.entry.parameters)))
    aliased = {
        (each.parameter_number, each.parameter_shape_index)
        for each in parameters
        if each.is_parameter_aliased_with_output
    }
    assert aliased == {(alias.parameter_number, alias.parameter_index) for alias in module.input_output_alias}
    outputs = [each.output_shape for each in assignment.allocations if each.output_shape is not None]
    root = module.entry.root
    assert root is not None
    assert [shape.to_string(layout=False) for shape in outputs] == [root.shape.to_string(layout=False)]


@each_with_values
def test_values_and_assignment_tell_the_same(dump: Dump) -> None:
    module, assignment = module_of(dump.path), assignment_of(dump.path)
    values = parse_buffer_values(source(dump, "buffer-assignment-values"), module)
    assert values.total_bytes == assignment.stats.total_bytes
    told = [(each.id, each.color, each.defined_at, each.is_phi) for each in values.values]
    assert told == [(each.id, each.color, each.defined_at, each.is_phi) for each in assignment.logical_buffers]
    for value in values.values:
        assert value.positions[0] == value.defined_at
        for use in value.uses:
            assert use.user.instruction is not None
            taken = use.user.instruction.operands[use.operand_number]
            assert any(place.instruction is taken for place in value.positions)


@each_dump
def test_live_ranges_hold_together(dump: Dump) -> None:
    ranges = parse_live_ranges(source(dump, "live-range"), module_of(dump.path))
    times = [each.time for each in ranges.schedule]
    assert times == sorted(set(times))
    assert all(0 <= each.start <= each.end <= ranges.schedule_end for each in ranges.ranges)
    assert ranges.peak_time is not None
    living = {each.place for each in ranges.ranges if each.start <= ranges.peak_time <= each.end}
    assert {value.place for value in ranges.peak} == living
    cumulative = 0
    for value in ranges.peak:
        cumulative += value.size_bytes
        assert value.cumulative_bytes == cumulative
    assert sum(node.current_bytes for node in ranges.stack) == ranges.stack_bytes == cumulative
    assert not ranges.stack or ranges.stack[-1].remaining_bytes == 0


@each_dump
def test_the_rows_of_a_report_add_up(dump: Dump) -> None:
    assignment = assignment_of(dump.path)
    report = memory_usage_report(assignment)
    assert sum(space.total_bytes for space in report.spaces) == assignment.stats.total_bytes
    for space in report.spaces:
        for allocation in space.allocations:
            cumulative = 0
            for row in allocation.rows:
                cumulative += row.size_bytes
                assert row.cumulative_bytes == cumulative
                assert row.value_count == sum(each.count for each in row.shapes)


# Old releases, newer ones than those of the fixtures, and what nobody has seen yet


def test_what_other_releases_print() -> None:
    text = """\
BufferAssignment:
allocation 0: 0x7f12ab, size 64, parameter 0, shape |(f32[4], s32[])| at ShapeIndex {0}, maybe-live-out:
 value: <3 p{0} @0> (size=64,offset=0): f32[4]{0}
allocation 1: size 128, color 1, preallocated-temp:
 value: <5 add> (size=64,offset=64): f32[16]{0}
 value: <7 odd @1> (size=64,offset=0): newtype[16]{0}
 reused by buffers of a different color:
  value: <9 mul{1,0} (phi) @0> (color=0)

Total bytes used: 192 (192B)

Used values:
<3 p{0} @0>
 positions:
  p {0}
 uses:
  add, operand 0 {0}
 from instruction: %p = (f32[4]{0}, s32[]) parameter(0)
"""
    assignment = parse_buffer_assignment(Source("old.txt", text))
    parameter, temp = assignment.allocations
    assert (parameter.size_bytes, parameter.parameter_shape_index, str(parameter.parameter_shape)) == (
        64,
        (0,),
        "(f32[4]{0}, s32[])",
    )
    assert (temp.color, temp.other_color_buffer_ids, temp.is_preallocated_temp) == (1, (9,), True)
    assert [str(buffer.defined_at) for buffer in assignment.logical_buffers] == ["p{0}", "add", "odd"]
    assert str(assignment.logical_buffers[-1].shape) == "newtype[16]{0}"
    assert not assignment.notes
    values = parse_buffer_values(Source("old.txt", text))
    assert (values.total_bytes, [str(use.user) for use in values.values[0].uses]) == (192, ["add"])


def test_stacks_are_not_in_old_live_ranges() -> None:
    text = "HloLiveRange (max 1):\n  InstructionSequence:\n    0:p\n  BufferLiveRange:\n    p{}:0-1\n"
    ranges = parse_live_ranges(Source("old.txt", text))
    assert (ranges.peak_time, ranges.stack_bytes, ranges.stack) == (None, None, ())


Reader = Callable[[Source], object]
READERS: dict[SiblingKind, Reader] = {
    "buffer-assignment": parse_buffer_assignment,
    "buffer-assignment-values": parse_buffer_values,
    "live-range": parse_live_ranges,
    "memory-usage-report": parse_memory_usage_report,
}
each_kind = pytest.mark.parametrize("kind", READERS)
SMALL = next(dump for dump in WITH_VALUES if dump.platform == "gpu")


def error_of(kind: SiblingKind, text: str) -> HloError | None:
    """What the reader of this kind has against a text."""
    try:
        READERS[kind](Source("a.txt", text))
    except HloError as error:
        return error
    return None


@each_kind
def test_unknown_lines_become_notes(kind: SiblingKind) -> None:
    text = SMALL.sibling(kind)
    lines = text.split("\n")
    at = len(lines) // 2
    strange = "\n".join((*lines[:at], "~ something new ~", *lines[at:]))
    found = READERS[kind](Source("a.txt", strange))
    notes = getattr(found, "notes", ())
    assert [note.message.endswith("~ something new ~") for note in notes] == [
        True
    ] or kind == "buffer-assignment-values"
    assert all(note.severity == "note" and note.span is not None for note in notes)


@each_kind
@pytest.mark.parametrize("text", ["", "\n\n", "HloModule m", "BufferAssignmen", "\x7fELF\x02", "\udc80\n" * 9])
def test_other_texts_are_refused(kind: SiblingKind, text: str) -> None:
    with pytest.raises(HloError) as caught:
        READERS[kind](Source("a.txt", text))
    assert caught.value.diagnostic.span is not None


@each_kind
def test_a_text_that_is_cut_is_refused_or_read_as_far_as_it_goes(kind: SiblingKind) -> None:
    text = SMALL.sibling(kind)
    chance = random.Random(3)
    cuts = [text[: chance.randrange(len(text))] for _ in range(60)]
    errors = [error_of(kind, cut) for cut in cuts]
    assert all(error is not None or cut.endswith("\n") for cut, error in zip(cuts, errors, strict=True))
    assert all(error.diagnostic.span is not None for error in errors if error is not None)
    assert sum(error is not None for error in errors) > 40


@each_kind
def test_damage_gives_no_traceback(kind: SiblingKind) -> None:
    text = SMALL.sibling(kind)
    chance = random.Random(4)
    for _ in range(60):
        start = chance.randrange(len(text))
        damaged = (
            text[:start] + chance.choice(["", "{", "\n", "<>", "0" * 30, "9,,9"]) + text[start + chance.randrange(30) :]
        )
        error = error_of(kind, damaged)
        assert error is None or error.diagnostic.message


@each_kind
@pytest.mark.parametrize("number", every(3, ["9" * 5000, ",", "-", "9,,9", "1.2.3", "²"]))
def test_numbers_that_are_none_give_no_traceback(kind: SiblingKind, number: str) -> None:
    text = SMALL.sibling(kind)
    for place in re.finditer(r"[0-9]+(?:,[0-9]+)*", text[:3000]):
        error = error_of(kind, text[: place.start()] + number + text[place.end() :])
        assert error is None or error.diagnostic.message


@each_kind
@pytest.mark.parametrize(
    "line",
    [" value: <1 a", "<1 a>\n positions:\n", "    a{}: 1 bytes", "  1B(", "    │   │   ", "allocation 1: size 1"],
)
def test_reading_takes_linear_time(kind: SiblingKind, line: str) -> None:
    text = SMALL.sibling(kind)

    def reading(count: int) -> Callable[[], object]:
        source = Source("a.txt", text + f"{line}\n" * count + line * count + "\n\n")

        def read() -> None:
            with contextlib.suppress(HloError):
                READERS[kind](source)

        return read

    assert is_linear(reading, 1000, 8000)


# Numbers of bytes


def test_bytes_are_written_and_read_alike() -> None:
    chance = random.Random(6)
    for bits in range(63):
        number = chance.getrandbits(bits) | 1 << bits
        assert byte_text(byte_number(byte_text(number))) == byte_text(number)
        assert abs(byte_number(byte_text(number)) - number) <= number // 19


@pytest.mark.parametrize("text", ["", "B", "1.2.3K", "12 K", "1Q", "0x10", "K1"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of bytes"):
        byte_number(text)


# The files beside a dump


@pytest.mark.parametrize("folder", ["gpu/h100_mlp", "tpu/v6e_embedding", "cpu/wide"])
def test_the_files_beside_a_dump_are_found(folder: str) -> None:
    inputs = read_inputs([str(FIXTURES / folder)])
    assert inputs
    for each in inputs:
        module = parse_module(each.source)
        text = read_sibling(each, "buffer-assignment")
        assert text is not None
        places = [buffer.defined_at for buffer in parse_buffer_assignment(text, module).logical_buffers]
        assert all(place.instruction is not None for place in places)


def test_the_files_beside_a_chosen_stage() -> None:
    folder = str(FIXTURES / "tpu" / "v6e_embedding")
    [before] = read_inputs([folder], stage="before_optimizations")
    assert read_sibling(before, "live-range") is None
    [again] = read_inputs([folder], stage="after_optimizations_after_buffer_assignment")
    assert again.module == "jit_run"
    assert read_sibling(again, "live-range") is not None


def test_timestamps_and_compression(tmp_path: Path) -> None:
    name = "1700000000000000.module_0007.jit_f.sm_9.0_gpu_after_optimizations"
    (tmp_path / f"{name}.txt").write_text("HloModule jit_f\nENTRY e { ROOT p = f32[] parameter(0) }\n")
    (tmp_path / f"{name}-live-range.txt.gz").write_bytes(gzip.compress(b"HloLiveRange (max 1):\n"))
    [each] = read_inputs([str(tmp_path)])
    text = read_sibling(each, "live-range")
    assert text is not None
    assert text.text.startswith("HloLiveRange")


def test_plain_texts_and_what_is_none(tmp_path: Path) -> None:
    assert read_plain("-", stdin=io.BytesIO(b"\xef\xbb\xbfa\r\nb")).text == "a\nb"
    for content, said in ((b"", "is empty"), (b" \n", "is empty"), (b"a\0b", "is a binary file")):
        (tmp_path / "error.txt").write_bytes(content)
        with pytest.raises(HloError, match=said):
            read_plain(str(tmp_path / "error.txt"))
    for path, said in ((str(tmp_path / "eror.txt"), "not found"), (str(tmp_path), "cannot read")):
        with pytest.raises(HloError, match=said):
            read_plain(path)
    with pytest.raises(HloError, match="more than 3 bytes"):
        read_plain("-", stdin=io.BytesIO(b"abcd"), maximum_bytes=3)
