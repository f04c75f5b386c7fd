"""Compiler errors and diffs in place of a module: the rule, what violates it, where it was raised, and the instructions."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from hlo_cli.analysis.shapes.inference import difference_in_words
from hlo_cli.cli import main
from hlo_cli.commands.pasted import compiler_messages, unified_diff
from hlo_cli.commands.pasted.mentions import mentions_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.inputs.pasted.read import read_text, sides_of
from hlo_cli.inputs.pasted.unwrapping import plain_lines
from hlo_cli.report.figure import Anatomy
from hlo_cli.report.report import Report
from hlo_cli.report.text import Passage, line_of, plain_text
from hlo_cli.source import HloError
from hlo_cli.syntax.compiler_messages.compiler_errors import parse_compiler_errors
from hlo_cli.syntax.scanning.shape_reader import parse_shape
from timing import is_linear

STATE = (
    "{}: The parameter of condition and body, the result of the body, and init must all have the same shape; got "
    "Condition: (state.1: {}) -> pred[]; body: (state.2: {}) -> {}; init: {}.."
)


def explained(text: str) -> Report:
    """The report on an error."""
    return compiler_messages.compiler_error_report(PastedText("compiler-error", "-", plain_lines(text)))


def prose(report: Report) -> str:
    """All paragraphs of a report."""
    return " ".join(
        plain_text(line_of(each)) for part in report.parts if isinstance(part, Passage) for each in part.paragraphs
    )


def differences(report: Report) -> list[tuple[object, ...]]:
    """The rows on elements that differ."""
    return [tuple(row) for table in report.tables if table.name == "shape_differences" for row in table.rows]


def test_a_result_that_does_not_follow_from_its_operands() -> None:
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: during context [hlo verifier]: Expected instruction to have "
        "shape equal to f32[9,33,5], actual shape is f32[33,5,9]:\n"
        "%mixed.3 = f32[33,5,9]{2,1,0} dot(f32[9,33,4]{2,1,0} %u, f32[9,4,5]{2,1,0} %v), lhs_batch_dims={0}, "
        'lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, metadata={op_name="jit(h)/dot" '
        'source_file="h.py" source_line=5}\n\nFailed after some-pass\n'
    )
    found = explained(text)
    assert found.answer == (
        "Result shape: the result of mixed.3 is f32[33,5,9], but its operands give f32[9,33,5] "
        "(sizes are in the order of dimensions 1, 2, 0)"
    )
    numbers = found.numbers
    assert (numbers["status"], numbers["context"]) == ("INTERNAL", "hlo verifier")
    assert (numbers["failed_after"], numbers["instruction"]) == ("some-pass", "mixed.3")
    assert (numbers["op_name"], numbers["source"]) == ("jit(h)/dot", "h.py:5")
    assert "hlo finds in mixed.3: expected the shape f32[9,33,5], found f32[33,5,9]" in {n.message for n in found.notes}
    assert "The pass some-pass" in prose(found)
    assert "hlo parse DUMP --slice mixed.3" in prose(found)
    assert [part.name for part in found.parts if isinstance(part, Anatomy)] == ["instruction"]


def test_random_permutations_are_told_apart_from_other_sizes() -> None:
    source = random.Random(5)
    for _ in range(50):
        sizes = source.sample(range(2, 90), 4)
        order = source.sample(range(4), 4)
        moved = [sizes[each] for each in order]
        words = difference_in_words(
            parse_shape(f"f32[{','.join(map(str, sizes))}]"), parse_shape(f"f32[{','.join(map(str, moved))}]")
        )
        wrong = [at for at in range(4) if order[at] != at]
        if not wrong:
            assert words == ""
        elif len(wrong) == 2:
            assert words == f"sizes of dimensions {wrong[0]} and {wrong[1]} are swapped"
        else:
            assert words == f"sizes are in the order of dimensions {', '.join(map(str, order))}"
        moved[0] += 100
        other = difference_in_words(
            parse_shape(f"f32[{','.join(map(str, sizes))}]"), parse_shape(f"f32[{','.join(map(str, moved))}]")
        )
        assert "dimension 0 is" in other


@pytest.mark.parametrize(
    ("shapes", "row"),
    [
        (("(f32[], s32[3])", "(f32[], s32[3])", "(f16[], s32[3])", "(f32[], s32[3])"), ("{0}", "f32[]", "body result", "f16[]", "type is f16, not f32")),
        (("(s64[], u8[2])", "(s64[1], u8[2])", "(s64[], u8[2])", "(s64[], u8[2])"), ("{0}", "s64[]", "body parameter", "s64[1]", "an array of 1 element, not a scalar")),
        (("(token[], (u8[], f32[7]))", "(token[], (u8[], f32[7]))", "(token[], (pred[], f32[7]))", "(token[], (u8[], f32[7]))"), ("{1,0}", "u8[]", "body result", "pred[]", "type is pred, not u8")),
    ],
)  # fmt: skip
def test_the_element_of_a_loop_state_that_changes(shapes: tuple[str, str, str, str], row: tuple[str, ...]) -> None:
    found = explained(STATE.format("INVALID_ARGUMENT", *shapes))
    assert differences(found) == [row]
    assert found.numbers["rule"] == "loop state"
    assert row[-1] in found.answer


def test_branches_with_different_results() -> None:
    found = explained(
        "** (RuntimeError) the result of branch 0 computation and branch 2 computation must have the same shape: got "
        "branch 0 computation result: (f32[4], s32[]); branch 2 computation result: (f32[4]).\n"
    )
    assert differences(found) == [("{1}", "s32[]", "other branch", None, "an element is missing")]


@pytest.mark.parametrize(
    ("text", "rule", "answer"),
    [
        ("INVALID_ARGUMENT: Binary op with incompatible shapes: f32[7,3] and f32[3,7].", "operand shapes", "Operand shapes: in the right operand, sizes of dimensions 0 and 1 are swapped"),
        ("INTERNAL: Seen floating point types of different precisions in %z = f32[3]{0} add(f32[3]{0} %a, bf16[3]{0} %b), but mixed precision is disallowed.", "mixed precision", "Mixed precision: z has f32 and bf16 values"),
        ("INTERNAL: RET_CHECK failure (xla/service/hlo_verifier.cc:99) a == b channel 31 is used for different types of channel instructions", "channel", "Channel: instructions with channel_id=31 differ"),
        ("UNIMPLEMENTED: Custom call target my_kernel is not implemented.", "custom-call target", "Custom-call target: no function is registered for my_kernel"),
        ("NOT_FOUND: No registered implementation for untyped custom call to other for CUDA", "custom-call target", "Custom-call target: no function is registered for other"),
        ("Check failed: x || ShapeUtil::StaticExtentProduct(shape) == ShapeUtil::StaticExtentProduct(operand->shape()) shape: f32[6,7] operand: f32[43]", "reshape", "Reshape: f32[43] has 43 elements, f32[6,7] has 42"),
        ("INVALID_ARGUMENT: was parsing 12:9: error: instruction does not exist: gone", "undefined name", "Undefined name: line 12, column 9: gone is not defined above"),
        ("INVALID_ARGUMENT: No such compile option: 'xla_made_up'", "compile option", "Compile option: xla_made_up is unknown"),
        ("INTERNAL: ptxas error : Entry function 'loop_fusion_7' uses too much shared data (0x10000 bytes, 0xc000 max)", "shared memory of a kernel", "Shared memory of a kernel: the kernel needs 65,536 bytes, and 49,152 are available"),
        ("INVALID_ARGUMENT: Mosaic failed to compile TPU kernel: Failed to verify layout for Mosaic kernel operand 1: XLA layout does not match MLIR layout for an operand of shape f32[5,256]: expected {1,0:T(128)}, got {1,0:T(8,128)}", "layout of a kernel operand", "Layout of a kernel operand: for f32[5,256] the kernel expects {1,0:T(128)} and gets {1,0:T(8,128)}"),
        ("INVALID_ARGUMENT: Cannot infer shape for dot operation: f32[2,9] <dot> f32[8,2]. Contracting dimension sizes are not compatible.", "operands", "Operands: f32[2,9] and f32[8,2]: Contracting dimension sizes are not compatible"),
        ("INVALID_ARGUMENT: Reduction function must take 4 parameters, but takes 3 parameter(s).", "reducer", "Reducer: Reduction function must take 4 parameters, but takes 3 parameter(s)"),
        ("INTERNAL: NCCL operation ncclGroupEnd() failed: remote process exited.", "collective at run time", "Collective at run time: ncclGroupEnd failed: remote process exited"),
        ("error: 'stablehlo.add' op requires compatible types", "StableHLO or MLIR", "StableHLO or MLIR: stablehlo.add requires compatible types"),
    ],
)  # fmt: skip
def test_rules(text: str, rule: str, answer: str) -> None:
    found = explained(text)
    assert found.numbers["rule"] == rule
    assert found.answer == answer


def test_an_unknown_error_shows_its_line_status_place_and_instruction() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/x/site-packages/jax/core.py", line 9, in f\n  File "job.py", line 4, in g\n'
        "E0101 10:00:00.000000 9 x.cc:5] INTERNAL: RET_CHECK failure (external/xla/xla/service/gpu/some.cc:41) n == 2 seen 3\n"
        "%gathered.2 = bf16[4,6]{1,0} all-gather(bf16[2,6]{1,0} %part), dimensions={0}, replica_groups={{0,1}}\n"
    )
    found = explained(text)
    numbers = found.numbers
    assert (numbers["rule"], numbers["status"], numbers["raised_at"]) == (
        None,
        "INTERNAL",
        "xla/service/gpu/some.cc:41",
    )
    assert (numbers["condition"], numbers["instruction"]) == ("n == 2 seen 3", "gathered.2")
    assert numbers["user_line"] == "job.py:4"
    assert "n == 2 seen 3" in found.answer
    assert [part.name for part in found.parts if isinstance(part, Anatomy)] == ["instruction"]


def test_names_without_instructions_lead_to_the_dump() -> None:
    found = explained("INTERNAL: Core halted unexpectedly: no message. HLO: my_fusion.8; HLO computation: main.9")
    assert "instruction my_fusion.8 and the computation main.9" in prose(found)
    assert "--slice my_fusion.8" in prose(found)


def test_a_pass_before_any_ran_is_not_blamed() -> None:
    text = "INTERNAL: during context [hlo verifier]: Expected instruction to have shape equal to f32[2], actual shape is f32[3]:\n%a = f32[3]{0} add(%b, %c)\n\nFailed after PASS"
    assert "already invalid when it entered" in prose(explained(text.replace("PASS", "pipeline-start")))
    assert "bug of XLA" in prose(explained(text.replace("PASS", "fusion")))


def test_an_error_without_any_known_word_is_its_last_line() -> None:
    assert explained("something\nhas gone\nquite wrong\n").answer == "quite wrong"


def test_errors_in_long_texts_are_found_with_their_line() -> None:
    text = (
        "step\n" * 60_000
        + "INVALID_ARGUMENT: Binary op with incompatible shapes: f32[2] and f32[5].\n"
        + "step\n" * 60_000
    )
    found = explained(text)
    assert found.numbers["rule"] == "operand shapes"
    assert found.input["line"] == 60_001


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "Error: x\n",
        "INTERNAL: ",
        "Expected instruction to have shape equal to (",
        'File "x", line 1\n',
        "error: 'a.b' op ",
    ],
)
def test_time_is_linear(piece: str) -> None:
    assert is_linear(lambda size: partial(explained, piece * size), 2_000, 20_000)


OLD_AND_NEW = """\
--- a/m.hlo
+++ b/m.hlo
@@ -1,6 +1,7 @@
 HloModule m

 ENTRY e {
   p = f32[8,16]{1,0} parameter(0)
-  n = f32[8,16]{1,0} negate(p)
-  ROOT r = f32[8,16]{1,0} add(n, p)
+  n = f32[8,16]{1,0} abs(p)
+  q = f32[8,16]{1,0} multiply(n, n)
+  ROOT r = f32[8,16]{1,0} add(q, p)
 }
"""


def compared(text: str) -> Report:
    """The report on a diff."""
    return unified_diff.diff_report(PastedText("diff", "-", text, versions=sides_of(text)))


def test_a_diff_is_two_modules() -> None:
    found = compared(OLD_AND_NEW)
    assert (found.numbers["added"], found.numbers["removed"], found.numbers["matched"]) == (2, 1, 2)
    assert found.schema == "hlo.diff/2"


def test_a_hunk_is_two_parts_of_a_module() -> None:
    found = compared("\n".join(OLD_AND_NEW.split("\n")[6:12]))
    assert found.numbers["added"] == 2
    [changes] = (table for table in found.tables if table.name == "changes")
    assert "n" in {row[changes.column_index("name")] for row in changes.rows}


def test_a_diff_without_hlo_lists_its_files() -> None:
    found = compared("diff --git a/x.cc b/x.cc\n--- a/x.cc\n+++ b/x.cc\n@@ -1 +1,2 @@\n-int a;\n+int b;\n+int c;\n")
    assert found.answer == "The diff has no HLO (2 lines added, 1 removed in 1 file)"
    assert [tuple(row) for row in found.main_table.rows] == [("x.cc", 2, 1)]


ENDLESS: dict[str, Callable[[int], str]] = {
    "spaces": lambda n: "RESOURCE_EXHAUSTED: x" + " " * n + "y",
    "backslashes": lambda n: "RESOURCE_EXHAUSTED: x" + "\\" * n + "y",
    "carriage returns": lambda n: "RESOURCE_EXHAUSTED: x" + "\r" * n + "y",
    "a long word": lambda n: "[spmd] Involuntary full rematerialization. " + "a" * n,
    "spaces in a warning": lambda n: "[spmd] Involuntary full rematerialization for %a" + " " * n + "b",
    "many warnings": lambda n: "Constant folding an instruction is taking > 1s: " * (n // 40),
    "a warning and a word": lambda n: "Constant folding an instruction is taking > 1s: " + "a" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_time_grows_with_the_text(text: Callable[[int], str], tmp_path: Path) -> None:
    def work(size: int) -> Callable[[], object]:
        path = tmp_path / "error.txt"
        path.write_text(text(size), newline="")
        return lambda: main([str(path), "-q", "-o", os.devnull, "--format", "json"], standalone=False)

    assert is_linear(work, 4_000, 64_000)


def test_a_number_of_any_length_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.txt"
    path.write_text(f"INTERNAL: uses too much shared data (0x{'f' * 9000} bytes, 0x1 max)")
    assert main([str(path), "-o", os.devnull], standalone=False) == 0


def test_a_judged_text_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "error.txt"
    path.write_text("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    assert main(["memspace", str(path), "--limit", "1GiB", "--json"], standalone=False) == 2
    report = json.loads(capsys.readouterr().out)
    assert "so it cannot be checked" in report["errors"][0]["message"]


@pytest.mark.parametrize("name", ["hlo", "pb"])
def test_an_answer_is_not_written_as_a_module(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "error.txt"
    path.write_text("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    target = tmp_path / f"new.{name}"
    assert main([str(path), "-o", str(target)], standalone=False) == 2
    assert f"not a module, so it cannot be written as {name}" in capsys.readouterr().err
    assert not target.exists()


_NINES = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        f"TypeError: cannot reshape array of shape (4, 3) (size {_NINES}) into shape (5,)",
        f"RuntimeError: mat1 and mat2 shapes cannot be multiplied ({_NINES}x3 and 4x5)",
        f"LatencyHidingScheduler current memory usage: {_NINES} bytes",
        f"LatencyHidingScheduler current memory usage: {'9' * 400} bytes",
        f"exceeds available shared memory: smem_bytes={_NINES} > {_NINES}",
        (
            "TypeError: Cannot concatenate arrays with shapes that differ in dimensions other than the one being "
            f"concatenated: concatenating along dimension {_NINES} for shapes (1, 2), (2, 2)"
        ),
    ],
)
def test_a_number_without_end_is_not_read(text: str) -> None:
    assert explained(text).answer


@pytest.mark.slow
@pytest.mark.parametrize("most", [24_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        ("", "{ lambda ; ", ""),
        ("", "{ lambda ", ""),
        ("|\nCPU 0", " ", "x"),
        ("|\n", "CPU 0 |", "x"),
        ("gpu_device_info", "\n", ""),
        ("pass_metadata", "\n", ""),
        ("cumulative_size;", "\n", ""),
        ("HloLiveRange", "\n", ""),
        ("BufferAssignment stats:", "\n", ""),
        ("num_replicas: 1", "\n", ""),
        ("output of", "\n", ""),
        ("", "Illegal value ", ""),
        ("Illegal value", " ", ""),
        ("divisible", "a\n", ""),
        ("divisible ", "Shard ", ""),
        ("", "evenly divi", ""),
    ],
)
def test_recognition_of_messages_is_linear(start: str, part: str, end: str, most: int) -> None:
    def work(size: int) -> Callable[[], object]:
        text = start + part * (size // len(part)) + end

        def read() -> None:
            with suppress(HloError):
                read_text(text, "-")

        return read

    assert is_linear(work, most // 8, most)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["x got incompatible shapes for broadcasting: ", "1 out of the last ", "Check failed: "]
)
@pytest.mark.parametrize("part", ["a", "1", "a ", "(2, 3), "])
def test_rules_are_linear(words: str, part: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = words + part * (size // len(part))
        return lambda: parse_compiler_errors(text)

    assert is_linear(work, 3_000, 24_000)


def test_markers_of_a_traceback_are_part_of_it() -> None:
    text = (
        "jax.errors.UnexpectedTracerError: Encountered an unexpected tracer. A function transformed by JAX had a side "
        "effect, allowing for a reference to an intermediate value\n    y = f(x)\n        ~^^^\nwith type float32[4] "
        "wrapped in a DynamicJaxprTracer to escape the scope. The leaked intermediate value was created on line "
        "/w/a.py:7 (f)."
    )
    assert explained(text).answer == "Leaked tracer: a float32[4] that f made (/w/a.py:7) is used outside of it"


@pytest.mark.parametrize(
    ("message", "is_answered"),
    [
        ("The loss is nan at (12, 5) and (13, 6)", False),
        ("The batch size is wrong at (12, 5) and (13, 6)", False),
        ("inconsistent shapes (12, 5) and (13, 5)", True),
        ("torch.Size([12, 5]) against torch.Size([13, 5])", True),
        ("got float32[12, 5] and float32[13, 5]", True),
    ],
)
def test_only_shapes_have_sizes_that_differ(message: str, is_answered: bool) -> None:
    assert ("The sizes differ: dimension 0 is 12 and 13." in prose(explained(f"ValueError: {message}"))) is is_answered


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "ValueError: cannot reshape array of size 12 into shape (5,2)",
            "Reshape: the array has 12 elements, (5,2) has another number",
        ),
        ("Incompatible shapes: [32,10] vs. [32,5]", "Shapes of operands: [32,10] and [32,5]"),
        (
            "NameError: Found an unbound axis name: i.",
            "Named axis: a collective names i, which nothing around it binds",
        ),
        (
            "ValueError: Non-hashable static arguments are not supported.",
            "Static argument: a static argument is not hashable",
        ),
        (
            "LatencyHidingScheduler current memory usage: 1000 bytes, does not fit in limit: 900",
            "Memory of a schedule: the schedule needs 1,000 B, the limit is 900 B",
        ),
        (
            "ptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'",
            "Version of ptxas: this ptxas does not know sm_120",
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.1<4711> with status=12 opcode=0",
            "Network of a collective: the transfer with 10.0.0.1 ended with status 12",
        ),
    ],
)
def test_a_clause_without_its_fields_is_dropped(text: str, answer: str) -> None:
    assert explained(text).answer == answer


def test_sizes_that_a_text_mentions_have_bytes() -> None:
    text = "an A100-SXM4-80GB has 80GB, or 81920 MB, and 1.5 GiB of 512 bytes"
    [table] = mentions_report(PastedText("mentions", "-", text)).tables
    assert [row[-1] for row in table.rows] == [80_000_000_000, 81_920_000_000, 1_610_612_736, 512]
