"""What the user names becomes texts: names of dumps, compression, encodings, logs, and messages where it fails."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_cli.inputs.dumps import is_auxiliary_file, parse_dump_name
from hlo_cli.inputs.files import decode
from hlo_cli.inputs.forms import decompress
from hlo_cli.inputs.input import Input, read_inputs, select_module
from hlo_cli.inputs.logs import find_modules
from hlo_cli.source import HloError, Source
from share import every
from timing import is_linear

MODULE = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused_computation (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  ROOT %neg = f32[4]{0} negate(%param_0)
}

ENTRY %main.3 (Arg_0.1: f32[4]) -> f32[4] {
  %Arg_0.1 = f32[4]{0} parameter(0)
  ROOT %fusion = f32[4]{0} fusion(%Arg_0.1), kind=kLoop, calls=%fused_computation, metadata={op_name="jit(f)/neg: HloModule x"}
}
"""
LINES = MODULE.splitlines()


def error_of(call: Callable[[], object]) -> HloError:
    with pytest.raises(HloError) as caught:
        call()
    return caught.value


def only(*arguments: str, **options: object) -> Input:
    [found] = read_inputs(arguments, **options)  # type: ignore[arg-type]
    return found


def write(folder: Path, *names: str, text: str = MODULE) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
    return str(folder)


# The names on the left are XLA's: jaxlib 0.10.2 wrote those of the CPU, the others are from XLA's documents and reports.
@pytest.mark.parametrize(
    ("file_name", "label", "module", "stage", "target"),
    [
        ("after_optimizations.txt.gz", None, None, "after_optimizations", None),
        ("module_0001.jit_step.cl_12345.before_optimizations.txt", "module_0001.jit_step", "jit_step", "before_optimizations", None),
        ("module_0001.jit_step.sm_8.0_gpu_after_optimizations.txt", "module_0001.jit_step", "jit_step", "after_optimizations", "sm_8.0_gpu"),
        ("module_0002.f.sm_90a_gpu_after_optimizations.txt", "module_0002.f", "f", "after_optimizations", "sm_90a_gpu"),
        ("module_0002.f.gfx942_gpu_after_optimizations.txt", "module_0002.f", "f", "after_optimizations", "gfx942_gpu"),
        ("module_0003.jit_f.cpu_after_optimizations.txt", "module_0003.jit_f", "jit_f", "after_optimizations", "cpu"),
        ("module_0080.jit_f.cl_747713181.after_codegen.txt", "module_0080.jit_f", "jit_f", "after_codegen", None),
        ("1624325116260738.module_0065.pmap.186875.before_optimizations.txt", "module_0065.pmap.186875", "pmap.186875", "before_optimizations", None),
        ("1624325116260738.module_0065.before_optimizations.hlo.pb", "module_0065", None, "before_optimizations", None),
        ("module_0001.pmap.1868.sm_8.0_gpu_after_optimizations.txt", "module_0001.pmap.1868", "pmap.1868", "after_optimizations", "sm_8.0_gpu"),
        (
            "module_0001.jit_step.0027.Layout_assignment.after_pipeline-start.before_layout-assignment.txt",
            "module_0001.jit_step", "jit_step", "0027.Layout_assignment.after_pipeline-start.before_layout-assignment", None,
        ),
        (
            "module_0004.jit_top.0019.copy-insertion.after_adding_copies_to_resolve_interference.txt",
            "module_0004.jit_top", "jit_top", "0019.copy-insertion.after_adding_copies_to_resolve_interference", None,
        ),
        ("0003.simplification.after_dce.before_gather_expander.txt.gz", None, None, "0003.simplification.after_dce.before_gather_expander", None),
        ("after_optimizations_before_buffer_assignment.txt", None, None, "after_optimizations_before_buffer_assignment", None),
    ],
)  # fmt: skip
def test_names_of_dumps(file_name: str, label: str | None, module: str | None, stage: str, target: str | None) -> None:
    name = parse_dump_name(file_name)
    assert name is not None
    assert (name.label, name.module, name.stage, name.target) == (label, module, stage, target)


@pytest.mark.parametrize(
    "file_name",
    [
        "module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt",
        "module_0003.jit_f.cpu_after_optimizations-buffer-assignment-values.txt.gz",
        "module_0003.jit_f.cpu_after_optimizations-live-range.txt",
        "module_0003.jit_f.cpu_after_optimizations-memory-usage-report.txt",
        "module_0001.jit_step.thunk_sequence.txt",
        "module_0001.jit_step.cl_1.execution_options.txt",
        "module_0001.jit_step-execution_options.txt",
        "target_arguments.txt.gz",
        "module_0001.jit_step.ir-with-opt.ll",
        "module_0001.jit_step.ptx",
        "module_0004.jit_f.obj-file.__compute_module_wrapped_sine.o",
        "module_0004.jit_f.debug_options",
        "module_0004.jit_f",
    ],
)
def test_what_xla_writes_beside_modules(file_name: str) -> None:
    assert parse_dump_name(file_name) is None
    assert is_auxiliary_file(file_name)


def test_directory_takes_the_newest_stage_of_each_module(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "dump",
        "module_0001.jit_f.before_optimizations.txt",
        "module_0001.jit_f.0009.dce.after_a.before_b.txt",
        "module_0001.jit_f.cpu_after_optimizations.txt",
        "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt",
        "module_0001.jit_f.ptx",
        "module_0010.jit_g.before_optimizations.txt",
        "module_0010.jit_g.0009.dce.after_a.before_b.txt",
        "module_0010.jit_g.0010.cse.after_a.before_b.txt",
        "module_0002.jit_h.after_optimizations.txt",
        "module_0002.jit_h.after_codegen.txt",
    )
    found = read_inputs([folder])
    assert [each.module for each in found] == ["jit_f", "jit_h", "jit_g"]
    assert [each.stage for each in found] == ["after_optimizations", "after_optimizations", "0010.cse.after_a.before_b"]
    assert [each.choice for each in found] == [
        f"the latest of 3 in {folder}/",
        f"one of 2 in {folder}/",
        f"the latest of 3 in {folder}/",
    ]
    assert dict(found[0].siblings) == {
        "buffer-assignment": f"{folder}/module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt"
    }
    assert found[0].source.name == f"{folder}/module_0001.jit_f.cpu_after_optimizations.txt"


@pytest.mark.parametrize(
    ("stage", "taken"),
    [
        ("before_optimizations", "before_optimizations"),
        ("befo", "before_optimizations"),
        ("cpu_after_optimizations", "after_optimizations"),
        ("9", "0009.Layout_assignment.after_x.before_y"),
        ("0009", "0009.Layout_assignment.after_x.before_y"),
        ("layout", "0009.Layout_assignment.after_x.before_y"),
        ("dce", "0010.simplification.after_dce.before_cse"),
    ],
)
def test_stage_chooses(tmp_path: Path, stage: str, taken: str) -> None:
    stages = (
        "before_optimizations",
        "0009.Layout_assignment.after_x.before_y",
        "0010.simplification.after_dce.before_cse",
    )
    write(tmp_path, *(f"module_0001.jit_f.{name}.txt" for name in (*stages, "cpu_after_optimizations")))
    assert only(str(tmp_path), stage=stage).stage == taken


def test_a_stage_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    folder = write(tmp_path, "before_optimizations.txt", "after_optimizations.txt")
    error = error_of(lambda: read_inputs([folder], stage="befre_optimizations"))
    assert str(error.diagnostic) == (f"error: stage 'befre_optimizations' not found in {folder}/")
    assert error.diagnostic.hint == "did you mean 'before_optimizations'?"
    assert "file names do not contain a stage" in str(
        error_of(lambda: read_inputs([write(tmp_path / "b", "x.hlo")], stage="before"))
    )


@pytest.mark.parametrize("module", ["jit_step", "module_0003.jit_step", "STEP", "module_0003"])
def test_module_chooses(tmp_path: Path, module: str) -> None:
    write(tmp_path, "module_0001.jit_f.before_optimizations.txt", "module_0003.jit_step.before_optimizations.txt")
    assert only(str(tmp_path), module=module).module == "jit_step"
    error = error_of(lambda: read_inputs([str(tmp_path)], module="jit_stop"))
    assert str(error.diagnostic) == f"error: module 'jit_stop' not found in {tmp_path}/"
    assert error.diagnostic.hint == "did you mean 'jit_step'?"
    error = error_of(lambda: read_inputs([str(tmp_path)], module="other"))
    assert error.diagnostic.hint == "available: jit_f, jit_step"


def test_module_is_known_from_the_header_where_the_name_is_silent(tmp_path: Path) -> None:
    folder = write(tmp_path, "after_optimizations.txt")
    assert only(folder, module="jit_f").module == "jit_f"
    assert only(f"{folder}/after_optimizations.txt").choice is None


def test_glob_and_lists_leave_out_what_is_no_module(tmp_path: Path) -> None:
    names = (
        "before_optimizations.txt",
        "after_optimizations.txt",
        "before_optimizations.hlo.pb",
        "x.ll",
        "thunk_sequence.txt",
    )
    folder = write(tmp_path, *names)
    for arguments in ([f"{folder}/*"], [f"{folder}/{name}" for name in names]):
        assert {Path(each.source.name).name for each in read_inputs(arguments)} == {*names[:2]}
    assert "no files match" in str(error_of(lambda: read_inputs([f"{folder}/*.xyz"])))


def test_names_that_hold_glob_signs_are_names(tmp_path: Path) -> None:
    folder = write(tmp_path, "m[1].txt")
    assert only(f"{folder}/m[1].txt").module == "jit_f"


def test_files_without_telling_names_are_modules_if_they_hold_hlo(tmp_path: Path) -> None:
    folder = write(tmp_path, "b.hlo", "a10.txt", "a9.txt")
    write(tmp_path, "notes.txt", text="buy milk\n")
    assert [Path(each.source.name).name for each in read_inputs([folder])] == ["a9.txt", "a10.txt", "b.hlo"]


def test_the_largest_of_several() -> None:
    inputs = [Input(Source(f"d/{n}", "x" * n), None, module=f"m{n}", argument="d/") for n in (2, 7, 7, 1)]
    chosen = select_module(inputs)
    assert chosen.source.name == "d/7"
    assert chosen.notes == ("using m7, the largest of 4 modules in d/; use --module to select another",)
    assert select_module(inputs[:1]).notes == ()


def _zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    return bytes(zstandard.ZstdCompressor().compress(data))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": _zstd,
}


@pytest.mark.parametrize("outer", PACKERS)
@pytest.mark.parametrize("inner", PACKERS)
def test_compression_is_told_by_content(tmp_path: Path, outer: str, inner: str) -> None:
    path = tmp_path / "m.txt"
    packed = PACKERS[outer](PACKERS[inner](MODULE.encode()))
    path.write_bytes(packed)
    assert only(str(path)).source.text == MODULE
    assert "more than two layers of compression" in str(error_of(lambda: decompress(gzip.compress(packed), "m")))


@pytest.mark.parametrize("kind", PACKERS)
def test_several_streams_in_one_file_are_read_on(kind: str) -> None:
    half = len(MODULE) // 2
    packed = PACKERS[kind](MODULE[:half].encode()) + PACKERS[kind](MODULE[half:].encode())
    assert decode(packed, "m") == MODULE


@pytest.mark.parametrize("kind", PACKERS)
def test_bombs_end_early(kind: str) -> None:
    bomb = PACKERS[kind](bytes(4_000_000))
    error = error_of(lambda: decompress(PACKERS[kind](bomb), "m.txt", maximum_bytes=1_000_000))
    assert "m.txt decompresses to more than 1,000,000 bytes" in str(error)


@pytest.mark.parametrize("kind", PACKERS)
def test_every_cut_of_a_compressed_file_is_an_error_that_says_so(kind: str) -> None:
    packed = PACKERS[kind](MODULE.encode())
    for length in range(8, len(packed), 7):
        assert kind in str(error_of(lambda length=length: decode(packed[:length], "m")))  # type: ignore[misc]
    assert "truncated" in str(error_of(lambda: decode(packed[:-9], "m")))


@given(st.sampled_from(sorted(PACKERS)), st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_damaged_file_never_ends_in_anything_but_text_or_an_error(kind: str, place: int, change: int) -> None:
    packed = bytearray(PACKERS[kind](MODULE.encode()))
    packed[place % len(packed)] ^= change
    with contextlib.suppress(HloError):
        decode(bytes(packed), "m", maximum_bytes=1_000_000)


@given(st.binary(max_size=200))
def test_any_bytes_become_text_or_an_error(data: bytes) -> None:
    try:
        text = decode(data, "m")
    except HloError:
        return
    if not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")) and b"\r" not in data:
        assert (text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")) == data


def test_zstd_without_a_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    error = error_of(lambda: decompress(b"\x28\xb5\x2f\xfd....", "m"))
    assert error.diagnostic.hint == "run `pip install zstandard`"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, newline: str) -> None:
    text = MODULE.replace("jit(f)", "jit(é)")
    assert decode(text.replace("\n", newline).encode(encoding), "m") == text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\x7fELF\x02\x01\x01\x00", "an object file"),
        (b"\x89PNG\r\n\x1a\n\x00", "a PNG image"),
        (b"PK\x03\x04\x00", "a zip archive"),
        (b"\x00\x01\x02", "<stdin> is a binary file, not HLO"),
        (b"#loc = loc(unknown)\nmodule @jit_f {\n", "<stdin> is StableHLO (MLIR), not HLO"),
        (b"; ModuleID = 'x'\n", "LLVM IR"),
        (b"//\n.version 8.3\n.target sm_90a\n", "PTX"),
        (b"BufferAssignment:\nallocation 0: size 4", "a buffer assignment"),
    ],
)  # fmt: skip
def test_what_is_not_hlo_is_called_by_its_name(data: bytes, words: str) -> None:
    assert words in str(error_of(lambda: read_inputs(["-"], stdin=io.BytesIO(data))))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path, "after_optimizations.txt.gz", "module_0001.jit_f.x.ll")
    error = error_of(lambda: read_inputs([f"{folder}/after_optimisations.txt"]))
    assert error.diagnostic.message == f"file '{folder}/after_optimisations.txt' not found"
    assert error.diagnostic.hint == f"did you mean '{folder}/after_optimizations.txt.gz'?"
    error = error_of(lambda: read_inputs([f"{folder}/nofile.hlo"]))
    assert error.diagnostic.hint == f"the only dump there is '{folder}/after_optimizations.txt.gz'"
    write(tmp_path, "module_0001.jit_f.after_optimizations.txt", "module_0001.jit_f")
    error = error_of(lambda: read_inputs([f"{folder}/nofile.hlo"]))
    assert error.diagnostic.hint == f"pass '{folder}' to read its 2 dumps"
    error = error_of(lambda: read_inputs([f"{folder}/module_0001.jit_f.txt"]))
    assert error.diagnostic.hint == f"did you mean '{folder}/module_0001.jit_f.after_optimizations.txt'?"
    error = error_of(lambda: read_inputs([f"{tmp_path.parent}/{tmp_path.name}x/after_optimizations.txt"]))
    assert error.diagnostic.hint == f"did you mean '{tmp_path}'?"
    assert "not found" in str(error_of(lambda: read_inputs([f"{folder}/no/such"])))
    assert "empty file name" in str(error_of(lambda: read_inputs([""])))
    (tmp_path / "dangling").symlink_to("nowhere")
    for path in ("a\0b", "x" * 5000, f"{folder}/dangling"):
        error_of(lambda path=path: read_inputs([path]))  # type: ignore[misc]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_files_that_one_may_not_read(tmp_path: Path) -> None:
    write(tmp_path, "m.txt")
    (tmp_path / "m.txt").chmod(0)
    assert "permission denied" in str(error_of(lambda: read_inputs([str(tmp_path / "m.txt")])))


def test_directories_without_dumps(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", "a.ll", "b.ll", "c.ptx")
    error = error_of(lambda: read_inputs([folder]))
    assert str(error.diagnostic) == f"error: no HLO dumps in {folder}/ (contains 2 .ll, 1 .ptx)"
    write(tmp_path / "d" / ".sub", "after_optimizations.txt")
    error = error_of(lambda: read_inputs([folder]))
    assert str(error.diagnostic) == f"error: no HLO dumps in {folder}/ (contains 2 .ll, 1 .ptx, 1 directory: .sub)"
    assert error.diagnostic.hint == f"did you mean '{folder}/.sub/'?"
    assert (
        str(error_of(lambda: read_inputs([write(tmp_path / "e")])).diagnostic)
        == f"error: directory {tmp_path}/e/ is empty"
    )


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_standard_input() -> None:
    for arguments in (["-"], []):
        found = only(*arguments, stdin=io.BytesIO(gzip.compress(MODULE.encode())))
        assert (found.source.name, found.path, found.source.text) == ("<stdin>", None, MODULE)
    assert "is a terminal" in str(error_of(lambda: read_inputs([], stdin=Terminal())))
    assert "cannot read stdin more than once" in str(error_of(lambda: read_inputs(["-", "-"], stdin=io.BytesIO())))
    closed = io.BytesIO()
    closed.close()
    assert "stdin is not available" in str(error_of(lambda: read_inputs(["-"], stdin=closed)))
    assert "produced more than 100 bytes" in str(
        error_of(lambda: read_inputs(["-"], stdin=io.BytesIO(bytes(200)), maximum_bytes=100))
    )


PREFIXES = [
    "I0521 12:04:45.883483    1509 service.cc:186] ",
    "I0521 12:04:45.883 1509 service.cc:186] ",
    "I0000 00:00:1716292345.123456    1234 file.cc:123] ",
    "I20240521 12:04:45.883483 1509 xla/service/dump.cc:186] ",
    "2024-03-06 06:16:17.601566: I external/xla/xla/service/dump.cc:507] ",
    "I itex/core/compiler/xla/service/hlo_pass_pipeline.cc:301] ",
    "2024-05-21T12:04:45.883Z stdout F ",
    "2024-05-21T12:04:45.883123456Z ",
    "2024-05-21 12:04:45,883 - root - INFO - ",
    "[2024-05-21 12:04:45,883][train][INFO] - ",
    "INFO:jax._src.dispatch:",
    "[pod/train-0/main] ",
    "worker-0  | ",
    "[rank0]: ",
    "(RayTrainWorker pid=1234) ",
    "2024-05-21T12:04:45.883Z stderr F I0521 12:04:45.883 1509 service.cc:186] ",
]  # fmt: skip
CHATTER = [
    "I0521 12:04:45.900 77 pass.cc:1] Running pass",
    "W0521 12:04:45.900   1509 other.cc:3] slow: 3 s",
    "2024-05-21 12:04:45.900000: W external/xla/a.cc:9] hello",
]


def positions(text: str) -> list[tuple[int, str]]:
    """The module's lines that are not empty, with their numbers in the file."""
    [excerpt] = find_modules(text)
    lines = excerpt.text.split("\n")
    return [(excerpt.first_line + number, line) for number, line in enumerate(lines) if line]


def numbered(lines: list[str], first: int) -> list[tuple[int, str]]:
    return [(first + number, line) for number, line in enumerate(lines) if line]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_before_each_line_go_and_line_numbers_stay(prefix: str) -> None:
    text = "".join(f"{prefix}{line}".rstrip() + "\n" for line in ["compiling", *LINES, "done"])
    assert positions(text) == numbered(LINES, 2)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_before_the_first_line_alone(prefix: str) -> None:
    text = f"{prefix}compiling\n{prefix}{MODULE}{prefix}done\n"
    assert positions(text) == numbered(LINES, 2)


@pytest.mark.parametrize(
    "outer", ["2024-05-21T12:04:45.883Z ", "2024-05-21T12:04:45.883Z stdout F ", "[pod/a-0/main] "]
)
@pytest.mark.parametrize("inner", PREFIXES[:5])
def test_a_message_of_many_lines_in_a_container_log(outer: str, inner: str) -> None:
    text = "".join(f"{outer}{line}\n" for line in f"{inner}{MODULE}{inner}done".split("\n"))
    assert positions(text) == numbered(LINES, 1)


@given(st.sampled_from(PREFIXES[:4]), st.integers(0, 1 << 32))
def test_lines_of_others_between_the_module_s(prefix: str, seed: int) -> None:
    randoms, lines, expected = random.Random(seed), [], []
    for line in LINES:
        if randoms.random() < 0.3:  # most lines are the module's own: that is how its prefix is told
            lines.append(randoms.choice(CHATTER))
        lines.append(prefix + line)
        expected += [(len(lines), line)] if line else []
    assert positions("\n".join(lines)) == expected


@given(st.integers(0, 1 << 32))
def test_log_lines_between_bare_lines(seed: int) -> None:
    randoms = random.Random(seed)
    lines, expected = ["WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"], []
    for line in LINES:
        if randoms.random() < 0.3:  # most lines are the module's own: that is how its prefix is told
            lines.append(randoms.choice(CHATTER))
        lines.append(line)
        expected += [(len(lines), line)] if line else []
    assert positions("\n".join([*lines, "107.7", "step 2"])) == expected


def test_lines_that_a_container_runtime_cut() -> None:
    time = "2024-05-21T12:04:45.883Z stdout"
    pieces = [f"{time} P {LINES[0][:30]}", f"{time} P {LINES[0][30:60]}", f"{time} F {LINES[0][60:]}"]
    [excerpt] = find_modules("\n".join([*pieces, *(f"{time} F {line}" for line in LINES[1:])]))
    assert [line for line in excerpt.text.split("\n") if line] == [line for line in LINES if line]


@pytest.mark.parametrize("ranks", [2, 5])
def test_modules_that_several_ranks_print_at_once(ranks: int) -> None:
    found = find_modules("\n".join(f"worker-{rank}  | {line}" for line in LINES for rank in range(ranks)))
    assert [each.first_line for each in found] == list(range(1, ranks + 1))
    for each in found:
        assert [line for line in each.text.split("\n") if line] == [line for line in LINES if line]


def test_more_writers_than_are_followed_at_once() -> None:
    lines = [f"I0521 12:04:45.883 {thread} a.cc:1] {line}" for thread in range(30) for line in LINES]
    found = find_modules("\n".join(lines))
    assert [each.first_line for each in found] == list(range(1, 30 * len(LINES), len(LINES)))
    assert all(each.text.strip() == MODULE.strip() for each in found)


def test_other_ranks_and_threads_stay_out() -> None:
    mine = [f"worker-0 | {line}" for line in LINES]
    mixed = [line for pair in zip(mine, (f"worker-1 | x {i}" for i in range(len(mine))), strict=True) for line in pair]
    assert [line for _, line in positions("\n".join(mixed))] == [line for line in LINES if line]


def test_a_plain_module_comes_back_as_it_is() -> None:
    assert find_modules(MODULE)[0].text is MODULE
    for text in ("ENTRY e {\n}\n", "// comment\n", '# hlo = """HloModule m\n', 'x = "HloModule m"\n'):
        assert find_modules(text)[0].text == text


def test_a_module_cut_short_keeps_its_last_line() -> None:
    cut = "\n".join(LINES[:-1])
    assert positions("step 1\n" + cut) == numbered(LINES[:-1], 2)


@pytest.mark.parametrize("between", ["", "\n", "// -----\n", "\n// -----\n\n"])
def test_several_modules_in_one_text(tmp_path: Path, between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = MODULE + between + MODULE.replace("jit_f", "jit_g") + between + MODULE.replace("jit_f", "jit_h")
    write(tmp_path, "m.txt", text=text)
    monkeypatch.chdir(tmp_path)  # a message names the file twice, and is cut where that takes too much
    path = "m.txt"
    found = read_inputs([path])
    assert [(each.source.name, each.module) for each in found] == [
        (f"{path}#1", "jit_f"), (f"{path}#2", "jit_g"), (f"{path}#3", "jit_h"),
    ]  # fmt: skip
    file_lines = text.split("\n")
    for each in found:
        place = each.source.position(each.source.text.index("ENTRY"))
        assert file_lines[place.line - 1].startswith("ENTRY")
        assert each.source.line(place.line) == file_lines[place.line - 1]
    assert only(f"{path}#2").module == "jit_g"
    assert "contains 3 modules" in str(error_of(lambda: read_inputs([f"{path}#4"])))


def test_modules_without_headers_are_parted_by_separators() -> None:
    assert [(each.text, each.first_line) for each in find_modules("ENTRY a {\n}\n// -----\nENTRY b {\n}\n")] == [
        ("ENTRY a {\n}\n", 1), ("ENTRY b {\n}\n", 4),
    ]  # fmt: skip


def test_dumps_on_standard_output_have_stages(tmp_path: Path) -> None:
    """The frames are those of `DumpToFileInDirOrStdoutImpl` in xla/service/dump.cc."""
    parts = []
    for module, stage in (
        ("f", "before_optimizations"),
        ("f", "cpu_after_optimizations"),
        ("g", "before_optimizations"),
    ):
        name = f"module_000{'fg'.index(module)}.jit_{module}.{stage}.txt"
        parts.append(f"*** Begin {name} ***\n{MODULE}\n*** End {name} ***\n")
    parts.insert(2, "*** Begin x-buffer-assignment.txt ***\nBufferAssignment:\n*** End x-buffer-assignment.txt ***\n")
    data = "".join(parts).encode()
    found = read_inputs(["-"], stdin=io.BytesIO(data))
    assert [(each.module, each.stage, each.choice) for each in found] == [
        ("jit_f", "after_optimizations", "the latest of 2 in <stdin>"),
        ("jit_g", "before_optimizations", None),
    ]
    assert all(each.source.text == MODULE + "\n"[: each.source.text.endswith("\n\n")] for each in found)
    assert len(read_inputs(["-"], stdin=io.BytesIO(data), stage="before")) == 2
    (tmp_path / "out.txt").write_bytes(data)
    assert only(f"{tmp_path}/out.txt#1").stage == "before_optimizations"


@pytest.mark.parametrize(
    "unit",
    every(3, [
        "HloModule ", "HloModule x, ", "a: HloModule x,", "\n", "\nI0521 12:04:45.883 ", "[", "(HloModule m,", "// -----\n",
        "2024-05-21 12:04:45.883 ", "*** Begin x ***\nHloModule m\n", "I0521 12:04:45.883 1 a.cc:1] HloModule m\n", "module @", " ",
    ]),
)  # fmt: skip
def test_reading_is_linear(unit: str) -> None:
    def reading(count: int) -> Callable[[], object]:
        text = "x" + unit * count
        return lambda: find_modules(text)

    assert is_linear(reading, 4_000, 40_000)
