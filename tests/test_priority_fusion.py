"""XLA's own reasons for GPU fusions: the dump of priority fusion, its replay, and what `--why-not` says of it."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from time import process_time

import pytest

import in_process
from dumps import FIXTURES
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.mutable_graph import fusible_computations
from hlo_cli.analysis.fusion.unfused_pairs import FusionOutcome, fusion_outcome, names_in_the_pass
from hlo_cli.inputs.dumps import fusion_dump_of, is_auxiliary_file, parse_dump_name
from hlo_cli.inputs.input import read_plain
from hlo_cli.ir.compiler_messages import FusedStep, FusionProcess, FusionStep, IneligibleStep, PriorityStep
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process

FOLDER = FIXTURES / "gpu/h100_normalization"
DUMP = FOLDER / "priority_fusion_dump.txt"


def _name(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}"


def _parse(text: str) -> FusionProcess:
    return parse_fusion_process(Source("dump.txt", text))


def test_every_step_of_a_real_dump_is_read() -> None:
    text = DUMP.read_text()
    process = _parse(text)
    kinds = {FusedStep: "fusion {", PriorityStep: "update_priority {", IneligibleStep: "producer_ineligible {"}
    for kind, begin in kinds.items():
        assert sum(isinstance(step, kind) for step in process.steps) == text.count(f"  {begin}")
    assert len(process.steps) == text.count("fusion_steps {") > 20
    assert process.device == "NVIDIA H100 80GB HBM3"
    assert process.memory_bandwidth == 3_352_320_000_000
    names = {instruction.name for instruction in parse_module(process.module_text).instructions}
    assert {step.producer for step in process.steps if isinstance(step, PriorityStep)} - names <= {
        step.fusion for step in process.steps if isinstance(step, FusedStep)
    }
    assert not process.is_truncated


def test_unknown_fields_other_spacing_and_the_mark_of_new_releases_are_accepted() -> None:
    text = """goo.gle/debugonly  fusion_steps: <producer_ineligible { producer_name: "a" reason: "b\\"\\303\\251" "c" new { x: 1 } }>
    # a comment
    future_field { deep { deeper: "}" } } fusion_steps { new_kind { name: "q" } }"""
    assert _parse(text).steps == (IneligibleStep("a", 'b"éc'),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a priority fusion dump"),
        ("HloModule m", "expected a priority fusion dump"),
        ("fusion_steps {\n}\n}\n", "expected a field in a priority fusion dump, found '}'"),
        ("fusion_steps {\n  !\n}\n", "expected a field in a priority fusion dump, found '!'"),
        ("fusion_steps { update_priority { us_fused: x1 } }", "expected a number as us_fused, found 'x1'"),
    ],
)
def test_other_text_is_an_error_with_its_place(text: str, message: str) -> None:
    with pytest.raises(HloError, match="error: " + message.replace("}", r"\}")) as error:
        _parse(text)
    assert error.value.diagnostic.span is not None


def test_a_truncated_dump_keeps_what_is_complete() -> None:
    text = DUMP.read_text()
    whole = _parse(text).steps
    random = Random(3)
    for end in random.sample(range(40, text.index("gpu_device_info")), 60):
        process = _parse(text[:end])
        assert process.steps == whole[: len(process.steps)]
        assert len(process.steps) >= text[:end].count("\n}\n") - 1


@pytest.mark.parametrize(
    "text",
    [
        "fusion_steps {" * 100_000,
        "fusion_steps { a: " + '"\\' * 200_000,
        "#" * 500_000,
        "fusion_steps {\n" + "x" * 500_000,
    ],
)
def test_hostile_dumps_take_linear_time(text: str) -> None:
    start = process_time()
    with suppress(HloError):
        _parse(text)
    assert process_time() - start < 2


def test_the_last_times_of_a_producer_are_the_sum_of_its_updates() -> None:
    """An update of a queued producer states differences, all others state times; XLA queues what it would fuse.

    A difference has the launch of the new consumer, but not that of the one that is gone.
    """
    random = Random(1)
    for _ in range(30):
        steps: list[FusionStep] = []
        times: dict[str, tuple[float, float]] = {}
        for number in range(40):
            name = f"p{random.randrange(8)}"
            new = random.randrange(1, 40) / 4, random.randrange(1, 40) / 4
            old = times.get(name, (0.0, 0.0))
            base = old if old[1] >= old[0] else (0.0, 0.0)
            steps.append(FusedStep(f"f{number}", f"q{number}", f"r{number}"))
            again = 1.0 if base != (0.0, 0.0) else 0.0
            steps.append(PriorityStep(name, (f"f{number}",), new[0] - base[0] + again, new[1] - base[1] + again))
            times[name] = new
        verdicts = fusion_outcome(FusionProcess(tuple(steps))).verdicts
        for name, (fused, unfused) in times.items():
            assert verdicts[name].fused_seconds == pytest.approx(fused * 1e-6)
            assert verdicts[name].unfused_seconds == pytest.approx(unfused * 1e-6)


def test_producers_that_stay_apart_for_their_times_would_be_slower_fused() -> None:
    outcome = fusion_outcome(_parse(DUMP.read_text()))
    saved = _saved_seconds(outcome)
    assert saved
    assert all(each < 0 for each in saved)


def _saved_seconds(outcome: FusionOutcome) -> list[float]:
    """The time that fusing would save, where both times are known."""
    times = ((each.fused_seconds, each.unfused_seconds) for each in outcome.verdicts.values())
    return [apart - fused for fused, apart in times if fused is not None and apart is not None]


def test_instructions_are_part_of_what_they_were_fused_into() -> None:
    steps = (FusedStep("f", "a", "b"), FusedStep("f.1", "a", "c"), FusedStep("f.1", "f", "f.1"))
    outcome = fusion_outcome(FusionProcess(steps))
    assert {name: set(parts) for name, parts in outcome.members.items()} == {"f.1": {"a", "b", "c"}}
    assert outcome.fused_into == {"b": ("f",), "a": ("f", "f.1"), "c": ("f.1",), "f": ("f.1",)}


def test_names_that_many_kernels_share_decide_nothing_and_take_linear_time() -> None:
    count = 1_500
    bodies = "".join(
        f"f{n} {{ p = f32[8] parameter(0) ROOT add.{count + n} = f32[8] add(p, p) }}\n" for n in range(count)
    )
    calls = "".join(f"k{n} = f32[8] fusion(p), kind=kLoop, calls=f{n}\n" for n in range(count))
    module = parse_module(f"{bodies}ENTRY e {{ p = f32[8] parameter(0)\n{calls}ROOT r = f32[8] negate(k0) }}")
    outcome = FusionOutcome({}, {f"fusion.{n}": (f"add.{n}",) for n in range(count)}, {})
    kernels = module.entry.instructions[1:-1]
    start = process_time()
    assert names_in_the_pass(outcome, kernels) == {}
    assert process_time() - start < 2


def test_the_file_is_found_by_the_name_of_its_module(tmp_path: Path) -> None:
    dump = tmp_path / "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt"
    other = tmp_path / "module_0002.jit_f.priority_fusion_dump.txt"
    own = tmp_path / "module_0001.jit_f.priority_fusion_dump.txt.gz"
    for path in (dump, other):
        path.write_text("x")
    name = parse_dump_name(dump.name)
    assert name is not None
    assert fusion_dump_of(str(dump), name) is None
    own.write_text("x")
    assert fusion_dump_of(str(dump), name) == str(own)
    assert is_auxiliary_file(own.name)


def _why_not(*arguments: str) -> tuple[str, str, int]:
    shown, notes, code = in_process.run(["fuse", *arguments, "--why-not"], folder=FIXTURES, settings={})
    return shown, notes, int(code or 0)


def test_reasons_are_in_the_words_of_xla() -> None:
    shown, notes, code = _why_not(str(FOLDER), "--format", "json")
    report = json.loads(shown)
    assert code == 0
    assert report["answer"]["decided_by"] == "priority-fusion"
    rows = report["tables"]["pairs"]["rows"]
    text = DUMP.read_text()
    reasons = {row["reason"] for row in rows if row["fused_seconds"] is None}
    assert reasons
    assert all(f'reason: "{reason}"' in text for reason in reasons)
    slower = [row for row in rows if row["fused_seconds"] is not None]
    assert slower
    assert all(row["fused_seconds"] > row["unfused_seconds"] for row in slower)
    assert "rules are those of the CPU compiler" not in notes
    assert str(DUMP) in notes


def test_one_pair_and_an_instruction_that_was_fused_are_found() -> None:
    steps = [step for step in _parse(DUMP.read_text()).steps if isinstance(step, FusedStep)]
    gone = next(step.producer for step in steps if step.fusion.startswith("fusion"))
    shown, notes, _ = _why_not(str(FOLDER), gone, "--format", "csv")
    assert f"priority-fusion fused {gone} into " in notes
    assert len(shown.splitlines()) > 1
    shown, _, _ = _why_not(str(FOLDER), "--format", "csv")
    first = shown.splitlines()[1].split(",")
    pair = f"{first[3]},{first[4]}"
    shown, _, _ = _why_not(str(FOLDER), pair, "--format", "csv")
    assert [line.split(",")[3:5] for line in shown.splitlines()[1:]] == [first[3:5]]


def test_without_the_file_the_flags_are_named_and_no_cpu_rule_is() -> None:
    shown, notes, code = _why_not("gpu/h100_scan", "--format", "json")
    report = json.loads(shown)
    assert code == 0
    assert report["answer"]["decided_by"] == "unknown"
    assert "--xla_dump_hlo_pass_re=priority-fusion" in notes
    assert "rule" not in {column["name"] for column in report["tables"]["pairs"]["columns"]}
    shown, notes, _ = _why_not("gpu/h100_scan", "--fusion-rules", "cpu", "--format", "json")
    assert "rules are those of the CPU compiler" in notes
    assert "rule" in {column["name"] for column in json.loads(shown)["tables"]["pairs"]["columns"]}


def test_a_damaged_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "after_optimizations.txt", tmp_path)
    lines = DUMP.read_text().splitlines()
    lines[6] = "  ! damaged"
    (tmp_path / DUMP.name).write_text("\n".join(lines))
    _, notes, code = _why_not(str(tmp_path))
    assert code == 2
    assert "error: expected a field in a priority fusion dump, found '!'" in notes
    assert f"{tmp_path / DUMP.name}:7:3" in notes


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("gpu_fusion/*/*/priority_fusion_dump.txt*")), ids=_name)
def test_the_replay_ends_with_the_module_after_the_pass(path: Path) -> None:
    """Only producers that would be slower fused stay apart for their times; what was fused is gone, but for bitcasts."""
    outcome = fusion_outcome(parse_fusion_process(read_plain(str(path))))
    (after,) = (read_plain(str(each)) for each in path.parent.glob("after_priority_fusion.txt*"))
    module = parse_module(after.text)
    left = {each.name: each for computation in fusible_computations(module) for each in computation.instructions}
    assert outcome.members.keys() <= left.keys()
    assert all(each < 0 for each in _saved_seconds(outcome))
    users = {operand.name: each.opcode for each in left.values() for operand in each.operands}
    kept = [name for name in outcome.fused_into if name in left and left[name].opcode != "bitcast"]
    assert all(users[name] == "bitcast" for name in kept)


def test_the_pass_that_fused_an_instruction_is_named_from_its_dumps(tmp_path: Path) -> None:
    """Two kernels are one after a pass; the dump of priority fusion does not have them."""
    head = "HloModule jit_f, is_scheduled=true\n"
    apart = "ENTRY e { p = f32[8] parameter(0) dot.1 = f32[8] abs(p) ROOT exp.1 = f32[8] exponential(dot.1) }\n"
    body = "f { q = f32[8] parameter(0) dot.7 = f32[8] abs(q) ROOT n = f32[8] negate(dot.7) }\n"
    fused = f"{body}ENTRY e {{ p = f32[8] parameter(0) gemm = f32[8] fusion(p), kind=kCustom, calls=f "
    name = "module_0001.jit_f"
    stages = {
        "0001.fusion.after_pipeline-start.before_gemm-rewriter": head + apart,
        "0002.fusion.after_gemm-rewriter.before_dce": f"{head}{fused} ROOT exp.1 = f32[8] exponential(gemm) }}\n",
        "sm_9.0_gpu_after_optimizations": f"{head}{fused} ROOT exp.1 = f32[8] exponential(gemm) }}\n",
    }
    for stage, text in stages.items():
        (tmp_path / f"{name}.{stage}.txt").write_text(text)
    shown, notes, code = _why_not(str(tmp_path), "dot.1", "--format", "csv")
    assert code == 0, notes
    assert "gemm-rewriter fused dot.1 into gemm" in notes
    assert shown.splitlines()[1].split(",")[3:5] == ["gemm", "exp.1"]
    shown, _, _ = _why_not(str(tmp_path), "dot.1,dot.7", "--format", "screen")
    assert shown.startswith("Both are in one kernel, gemm")
    _, notes, code = _why_not(str(tmp_path), "nothing")
    assert code == 2
    assert "instruction 'nothing' not found" in notes
