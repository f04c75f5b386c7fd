"""What a person sees of GPU fusion: one decision in full, chips compared, changes with their times, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_fusion_dumps import HOME, Program, programs
from hlo_cli import parse_module
from hlo_cli.analysis.fusion.gpu_model import LAUNCH
from hlo_cli.analysis.fusion.gpu_rules import MEANINGS, meaning_of
from hlo_cli.analysis.fusion.unfused_pairs import fusion_outcome
from hlo_cli.source import Source
from hlo_cli.syntax.compiler_files.fusion_process import parse_fusion_process
from hlo_cli.transform.fusion import gpu_priority_fusion
from hlo_cli.transform.fusion.gpu_decisions import GpuPair, kernels_of_dump, pairs_of, pairs_of_dump
from hlo_cli.transform.fusion.gpu_fusion import gpu_decisions, gpu_fuse
from hlo_cli.transform.fusion.gpu_priority_fusion import UNDECIDED
from in_process import Answer, run

TICK = 1 / 4e9
CHECKED = [each for each in programs() if not each.has_triton and each.chip in ("h100", "a100-80gb", "b200")]
NORM = """HloModule norm
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[1024,2048] parameter(0)
  t = f32[1024,2048] sine(x)
  zero = f32[] constant(0)
  s = f32[2048] reduce(t, zero), dimensions={0}, to_apply=sum
  b = f32[1024,2048] broadcast(s), dimensions={1}
  ROOT d = f32[1024,2048] divide(x, b)
}
"""
REREAD = """HloModule reread
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  p = f32[256,4096] parameter(0)
  q = f32[256,64,64] parameter(1)
  zero = f32[] constant(0)
  r = f32[256] reduce(p, zero), dimensions={1}, to_apply=sum
  b = f32[256,64,64] broadcast(r), dimensions={0}
  ROOT d = f32[256,64,64] add(b, q)
}
"""


@pytest.mark.parametrize("program", CHECKED, ids=str)
def test_replayed_decisions_have_the_times_and_reasons_that_xla_wrote(program: Program) -> None:
    process = parse_fusion_process(Source("dump", program.text("priority_fusion_dump")))
    module = parse_module(program.text("before_priority_fusion"))
    verdicts = fusion_outcome(process).verdicts
    timed = {name for name, verdict in verdicts.items() if verdict.fused_seconds is not None}
    kernels = kernels_of_dump(module, process, program.chip, timed)
    for name, verdict in verdicts.items():
        own = [pair for pair in pairs_of_dump(module, process, program.chip, (name,)) if pair.producer == name]
        if verdict.fused_seconds is None or verdict.unfused_seconds is None:
            assert all(pair.reason == verdict.reason for pair in own), name
            continue
        pair = own[0]
        assert pair.fused_ticks is not None
        assert pair.unfused_ticks is not None
        assert pair.fused_ticks * TICK == pytest.approx(verdict.fused_seconds, rel=2e-6), name
        assert pair.unfused_ticks * TICK == pytest.approx(verdict.unfused_seconds, rel=2e-6), name
        assert kernels[name][0] == pair.unfused_ticks - pair.fused_ticks


def test_parts_of_a_time_add_up() -> None:
    (pair,) = _pairs(NORM, "t", "s")
    assert (pair.producer, pair.consumer, pair.is_fused) == ("t", "s", False)
    assert None not in pair.kernels
    for parts in pair.kernels:
        assert parts is not None
        read = sum(each.ticks for each in parts.reads)
        assert read + parts.time.write_ticks == parts.memory_ticks
        assert sum(each.bytes_read for each in parts.reads) == parts.time.bytes_read
        overlap = round(0.95 * min(parts.compute_ticks, parts.memory_ticks))
        assert parts.time.ticks == pytest.approx(parts.compute_ticks + parts.memory_ticks - overlap, abs=1)
    one, other, both = (parts.time.ticks for parts in pair.kernels if parts is not None)
    assert pair.fused_ticks == LAUNCH + both
    assert pair.unfused_ticks == 2 * LAUNCH + one + other


def test_a_pair_that_is_fused_has_the_times_of_that_moment() -> None:
    (pair,) = _pairs(NORM, "b", "d")
    assert pair.is_fused
    assert pair.fused_ticks is not None
    assert pair.unfused_ticks is not None
    assert pair.fused_ticks < pair.unfused_ticks


def test_names_in_any_order_and_names_that_are_no_pair() -> None:
    assert _pairs(NORM, "s", "t") == _pairs(NORM, "t", "s")
    assert _pairs(NORM, "t", "d") == []


def test_the_screen_of_one_decision(tmp_path: Path) -> None:
    text = _screen(_hlo(tmp_path, NORM, "t,s", "--why-not", "--chip", "h100"))
    assert text.startswith("t is not fused into s on h100: fusing takes longer, 126.0 µs instead of 36.5 µs")
    assert "has 32 blocks of 1,024 threads for 132 cores" in text
    for word in ("separate", "producer", "consumer", "fused", "cycles", "memory", "compute", "coalesced", "repeats"):
        assert word in text
    assert "hlo fuse m.hlo --fuse t,s --chip h100" in text


def test_repeated_reads_decide(tmp_path: Path) -> None:
    text = _screen(_hlo(tmp_path, REREAD, "r,b", "--why-not", "--chip", "h100"))
    assert text.startswith("r is not fused into")
    assert "Fusing would read p 4,096 times" in text or "fusion into output of a reduce fusion" in text


def test_json_of_one_decision_has_units(tmp_path: Path) -> None:
    report = _json(_hlo(tmp_path, NORM, "t,s", "--why-not", "--chip", "h100", form="json"))
    answer = report["answer"]
    assert answer["saved_seconds"] == pytest.approx(answer["unfused_seconds"] - answer["fused_seconds"])
    assert answer["saved_seconds"] < 0
    kernels = report["tables"]["fused_kernels"]["rows"]
    assert [row["kernel"] for row in kernels] == ["producer", "consumer", "fused"]
    assert {"read_bytes", "written_bytes", "cycles", "memory_seconds", "compute_seconds"} <= kernels[0].keys()
    assert report["tables"]["pairs"]["rows"][0]["emitter"] == "reduction"


def test_one_name_is_the_decision_on_it_as_a_producer(tmp_path: Path) -> None:
    assert _screen(_hlo(tmp_path, NORM, "t", "--why-not", "--chip", "h100")).startswith("t is not fused into s on h100")


def test_chips_are_compared(tmp_path: Path) -> None:
    text = _screen(_hlo(tmp_path, NORM, "t,s", "--why-not", "--chip", "h100,a100-80gb"))
    assert text.startswith("t and s are one kernel on a100-80gb, but not on h100")
    assert "The difference is in computing" in text
    assert "Cycles: 12,576,768 on a100-80gb and 2,023,737,344 on h100" in text
    for option in ("--why-not", "--run-pass"):
        report = _json(_hlo(tmp_path, NORM, option, "--chip", "h100,a100-80gb", form="json"))
        (row,) = report["tables"]["pairs"]["rows"]
        assert (row["producer"], row["consumer"], row["fused_on"]) == ("t", "s", "a100-80gb")


def test_equal_chips_have_no_differences(tmp_path: Path) -> None:
    text = _screen(_hlo(tmp_path, NORM, "--run-pass", "--chip", "h100,h200"))
    assert text.startswith("XLA fuses the same pairs on h100 and h200")


def test_apply_is_run_pass(tmp_path: Path) -> None:
    one = _hlo(tmp_path, NORM, "--apply", "--chip", "h100", form="json")
    assert one == _hlo(tmp_path, NORM, "--run-pass", "--chip", "h100", form="json")
    written = _hlo(tmp_path, NORM, "--apply", "--chip", "h100", form="hlo")[0]
    assert parse_module(written).to_string() == written
    _, notes, code = _hlo(tmp_path, NORM, "--apply", "--chip", "h100", "-o", str(tmp_path / "new.hlo"), form="")
    assert (code, (tmp_path / "new.hlo").read_text()) == (0, written), notes


def test_every_fusion_has_a_certainty(tmp_path: Path) -> None:
    report = _json(_hlo(tmp_path, NORM, "--apply", "--chip", "h100", form="json"))
    fusions = report["tables"]["fusions"]["rows"]
    assert len(fusions) == report["answer"]["fusions_after"] == 2
    assert {row["certainty"] for row in fusions} == {"exact"}
    lines = _hlo(tmp_path, NORM, "--apply", "--chip", "h100", "--table", "fusions", form="csv")[0].splitlines()
    assert lines[0] == "fusion,certainty,producers,steps"
    assert lines[1].startswith("fusion,exact,b")


def test_changes_have_times_and_the_answer_of_xla(tmp_path: Path) -> None:
    shown = _hlo(tmp_path, NORM, "--fuse", "t,s", "--chip", "h100")
    assert "predicted time on h100: 48.6 µs → 138.1 µs (184% more)" in _screen(shown)
    assert "XLA:GPU would not fuse these for h100: fusing takes longer, 126.0 µs instead of 36.5 µs" in shown[1]
    report = _json(_hlo(tmp_path, NORM, "--fuse", "b,d", "--chip", "h100", form="json"))
    answer, rows = report["answer"], report["tables"]["changed_kernels"]["rows"]
    saved = answer["predicted_seconds_before"] - answer["predicted_seconds_after"]
    assert sum(row["saved_seconds"] for row in rows) == pytest.approx(saved)
    assert saved > 0


def test_a_dump_names_its_chip(tmp_path: Path) -> None:
    figures = "gpu_device_info {\n  core_count: 108\n  memory_bandwidth: 2039040000000\n}\n"
    (tmp_path / "module_0001.jit_f.gpu_target_config.pbtxt").write_text(figures)
    (tmp_path / "module_0001.jit_f.sm_8.0_gpu_before_optimizations.txt").write_text(NORM)
    shown = run(["fuse", str(tmp_path), "--why-not", "--format", "json"], folder=tmp_path, settings={})
    assert json.loads(shown[0])["answer"]["decided_by"] == "a100-80gb"
    assert "the dump was compiled for a100-80gb; --chip NAME selects another GPU" in shown[1]
    changed = run(["fuse", str(tmp_path), "--run-pass", "--format", "json"], folder=tmp_path, settings={})
    assert json.loads(changed[0])["answer"]["chip"] == "a100-80gb"


def test_a_pair_of_a_dump_has_xlas_times_and_parts(tmp_path: Path) -> None:
    program = next(each for each in CHECKED if str(each) == "h100_sxm-s0029")
    text = program.text("priority_fusion_dump") + _device_info() + _before(program)
    (tmp_path / "module_0001.jit_f.priority_fusion_dump.txt").write_text(text)
    after = "module_0001.jit_f.0001.fusion.after_priority-fusion.before_cse.txt"
    (tmp_path / after).write_text(program.text("after_priority_fusion"))
    shown = run(
        ["fuse", str(tmp_path / after), "fusion.6", "--why-not", "--format", "json"], folder=tmp_path, settings={}
    )
    report = json.loads(shown[0])
    assert report["answer"]["decided_by"] == "priority-fusion"
    assert report["answer"]["fused_seconds"] == pytest.approx(16.5125e-6)
    assert len(report["tables"]["fused_kernels"]["rows"]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--run-pass", "--chip", "h1000"), "error: unknown chip 'h1000'"),
        (("--run-pass", "--chip", "a100"), "error: ambiguous chip 'a100'"),
        (("--why-not", "--chip", "h100,v5e"), "error: v5e is not a GPU"),
        (("--cost", "--chip", "h100,b200"), "error: --chip takes several chips only with --why-not or --run-pass"),
        (("--fuse", "t,s", "--chip", "h100,b200"), "error: --chip takes several chips only"),
        (("--run-pass", "--verify", "--chip", "h100,b200"), "error: --verify cannot be used with several chips"),
        (("--run-pass", "--chip", "h100,b200", "--format", "hlo"), "error: a module is for one chip, found h100, b200"),
        (("nosuch", "--why-not", "--chip", "h100"), "error: instruction 'nosuch' not found"),
        (("t,s,d", "--why-not", "--chip", "h100"), "error: --why-not takes at most two names, found 3"),
    ],
)
def test_bad_input_is_an_error(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    _, notes, code = _hlo(tmp_path, NORM, *options, form="")
    assert code == 2
    assert message in notes


def test_modules_for_other_targets_and_of_other_stages_are_named(tmp_path: Path) -> None:
    tpu = NORM.replace("x = f32[1024,2048] p", "x = f32[1024,2048]{1,0:T(8,128)} p")
    _, notes, code = _hlo(tmp_path, tpu, "--run-pass", "--chip", "h100")
    assert (code, "error: h100 is a GPU, but the module was compiled for TPU" in notes) == (2, True)
    scheduled = NORM.replace("HloModule norm", "HloModule norm, is_scheduled=true")
    assert "XLA's fusion passes have run already" in _hlo(tmp_path, scheduled, "--run-pass", "--chip", "h100")[1]
    whole = NORM.replace("HloModule norm", "HloModule norm, num_partitions=2").replace(
        "parameter(0)\n  t", "parameter(0), sharding={devices=[2,1]<=[2]}\n  t"
    )
    assert "the module is not partitioned" in _hlo(tmp_path, whole, "--why-not", "--chip", "h100")[1]
    assert _hlo(tmp_path, "", "--run-pass", "--chip", "h100")[2] == 2


def test_pairs_that_are_not_neighbors_are_an_answer(tmp_path: Path) -> None:
    shown = _hlo(tmp_path, NORM, "t,d", "--why-not", "--chip", "h100")
    assert _screen(shown).startswith("t and d are not producer and consumer in separate kernels")
    assert shown[2] == 0


@pytest.mark.parametrize("program", CHECKED[:6], ids=str)
def test_every_listed_pair_can_be_asked_for_by_its_names(program: Program) -> None:
    module = parse_module(program.text("before_priority_fusion"))
    for decision in gpu_decisions(module, program.chip)[:6]:
        pairs = pairs_of(module, program.chip, decision.names)
        assert [(each.producer, each.consumer) for each in pairs] == [decision.names]


def test_a_dump_of_other_names_claims_nothing() -> None:
    adam = HOME / "a100_sxm_80" / "adam" / "before_priority_fusion.txt.gz"
    words = ["fuse", str(adam), "--why-not", "--format", "screen"]
    answer = run(words, folder=adam.parent, settings={"COLUMNS": "100", "NO_COLOR": "1"})
    assert "No kernel reads the result of another kernel" not in _screen(answer)
    assert "is from before fusion" in _screen(answer)


def test_every_reason_has_a_meaning() -> None:
    assert all(meaning_of(reason) for reason in MEANINGS)
    assert meaning_of("shared memory usage would be over the budget of 49152B")
    assert meaning_of("Unsupported opcode gather") == ""


def _pairs(text: str, *names: str) -> list[GpuPair]:
    return pairs_of(parse_module(text), "h100", names)


def _hlo(folder: Path, text: str, *options: str, form: str = "screen") -> Answer:
    (folder / "m.hlo").write_text(text)
    names, rest = (options[:1], options[1:]) if not options[0].startswith("-") else ((), options)
    formatted = ("--format", form) if form else ()
    arguments = ["fuse", "m.hlo", *names, *rest, *formatted, "--verbose"]
    return run(arguments, folder=folder, settings={"COLUMNS": "100", "NO_COLOR": "1"})


def _screen(answer: Answer) -> str:
    return " ".join(answer[0].split())


def _json(answer: Answer) -> Any:
    return json.loads(answer[0])


def _device_info() -> str:
    return '\ngpu_device_info {\n  core_count: 132\n  memory_bandwidth: 3352320000000\n  name: "H100"\n}\n'


def _before(program: Program) -> str:
    return f"hlo_module_before_fusion: {json.dumps(program.text('before_priority_fusion'))}\n"


def test_a_pass_that_takes_too_many_steps_is_ended_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [f"v{k} = f32[64] {'negate' if k % 2 else 'tanh'}({f'v{k - 1}' if k else 'p'})" for k in range(30)]
    text = "\n".join(["p = f32[64] parameter(0)", *lines, "ROOT r = f32[64] copy(v29)"])
    path = tmp_path / "chain.hlo"
    path.write_text(f"HloModule m\nENTRY e {{\n{text}\n}}", encoding="utf-8")
    whole = gpu_fuse(parse_module(path.read_text()), "h100")
    assert set(whole.certainty.values()) == {"exact"}
    monkeypatch.setattr(gpu_priority_fusion, "MAX_STEPS", 40)
    part = gpu_fuse(parse_module(path.read_text()), "h100")
    assert 0 < len(part.fused) < len(whole.fused)
    assert part.fused == whole.fused[: len(part.fused)], "what was fused is as without a limit"
    assert set(part.certainty.values()) == {UNDECIDED}
    output, _, _ = run(["fuse", str(path), "--run-pass", "--chip", "h100", "--json"], folder=tmp_path, settings={})
    count = len(part.certainty)
    assert json.loads(output)["answer"]["undecided_computations"] == ["e"]
    assert f"{count} of {count} fusions are {UNDECIDED}, and may grow" in output
    apart = gpu_decisions(parse_module(path.read_text()), "h100")
    assert UNDECIDED in {each.reason for each in apart}
    _, notes, _ = run(["fuse", str(path), "--why-not", "--chip", "h100,a100-80gb"], folder=tmp_path, settings={})
    assert f"h100: {count} fusions are {UNDECIDED}, and may grow" in notes
    last = apart[-1].names
    assert [pair.reason for pair in pairs_of(parse_module(path.read_text()), "h100", last)] == [UNDECIDED]
