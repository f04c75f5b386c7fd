"""Files that XLA writes beside dumps: passes with times, flags, thunks, targets. `data/dump_files` are of jaxlib 0.10.2."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hlo_cli.analysis.profile.compile_times import times_of_passes
from hlo_cli.commands.help.terms import _of_flag
from hlo_cli.ir.compiler_messages import PassRun
from hlo_cli.syntax.compiler_files.flags import (
    changed_settings,
    compiler_flags,
    settings_in_bytes,
    settings_in_environment,
    settings_of,
)
from hlo_cli.syntax.compiler_files.text_format import read_text_message
from hlo_cli.wire import field, fixed, number_at, packed, read_fields
from in_process import run
from strategies import FIXTURES
from traces_writing import Event, PlaneWriter, file_of

FOLDER = Path(__file__).parent / "data" / "dump_files"


def answer(name: Path | str, *options: str) -> tuple[str, dict[str, Any]]:
    """The sentence and the numbers of the answer to a file."""
    out, err, code = run([str(FOLDER / name), "--format", "json", *options], folder=Path(), settings={})
    assert code == 0, err
    document = json.loads(out)
    screen, _, _ = run([str(FOLDER / name), "--format", "screen"], folder=Path(), settings={"COLUMNS": "200"})
    return " ".join(screen.split("\n\n")[0].split()), document["answer"]


# --- passes ---


def test_passes_of_a_gpu_compilation() -> None:
    """Witness: start and end of each pass in the file, whose nesting another program removed."""
    sentence, numbers = answer("gpu.module_2654.metadata.textproto.gz")
    assert sentence == ("Compiling module 2654 took 208.1 ms in 329 pass runs; priority-fusion took 143.5 ms (71%)")
    assert numbers["changed"] == 23
    assert numbers["pass_seconds"] == pytest.approx(0.204, abs=5e-5)


def test_writing_dumps_is_not_compiling() -> None:
    """Witness: as above; `pipeline-start` is where libtpu writes the dumps of a pipeline."""
    sentence, numbers = answer("tpu.metadata.textproto.gz")
    assert "copy-insertion took 14.6 ms" in sentence
    assert (numbers["runs"], numbers["changed"]) == (505, 18)
    out, _, _ = run([str(FOLDER / "tpu.metadata.textproto.gz")], folder=Path(), settings={"COLUMNS": "200"})
    first = dict(zip(out.split("\n")[0].lstrip("#").split("\t"), out.split("\n")[1].split("\t"), strict=True))
    assert first["pass"] == "pipeline-start"
    assert float(first["seconds"]) == pytest.approx(0.1501, abs=5e-5)


def test_the_name_of_the_module_is_in_the_names_of_its_dumps(tmp_path: Path) -> None:
    path = tmp_path / "module_2654.metadata.textproto"
    path.write_bytes(gzip.decompress((FOLDER / "gpu.module_2654.metadata.textproto.gz").read_bytes()))
    for name in ("module_0012.jit_other", "module_2654.jit_attn"):
        (tmp_path / f"{name}.before_optimizations.txt").touch()
    assert answer(path)[0].startswith("Compiling jit_attn took ")


def test_self_times_of_nested_passes_add_up() -> None:
    """Random trees of spans, whose times are known by construction."""
    random = Random(5)
    for _ in range(50):
        runs, expected = list[PassRun](), dict[str, int]()
        _add(random, runs, expected, 0, 1000, 4)
        random.shuffle(runs)
        times = times_of_passes(runs)
        assert {each.name: round(each.seconds * 1e6) for each in times.passes} == expected
        assert round(times.inside * 1e6) == round(times.seconds * 1e6) == 1000


def _add(random: Random, runs: list[PassRun], own: dict[str, int], begin: int, end: int, depth: int) -> None:
    name = f"p{len(runs)}"
    runs.append(PassRun(name, "", begin, end))
    own[name] = end - begin
    at = begin
    while depth and end - at > 4 and random.random() < 0.8:
        first = random.randrange(at + 1, end)
        last = random.randrange(first + 1, end + 1)
        own[name] -= last - first
        _add(random, runs, own, first, last, depth - 1)
        at = last


def test_a_trace_of_a_compilation_has_the_times_of_its_passes() -> None:
    """Witness: jax.profiler.ProfileData of the same file; self times add up to those of the client's compilations."""
    path = str(FOLDER / "compile.xplane.pb.gz")
    out, err, code = run(["profile", path, "--format", "json"], folder=Path(), settings={})
    assert code == 0, err
    document = json.loads(out)
    numbers = document["answer"]
    assert numbers["compilations"] == 1
    assert numbers["seconds"] == pytest.approx(0.62957042)
    assert numbers["pass_seconds"] == pytest.approx(numbers["seconds"])
    passes = {row["pass"]: row for row in document["tables"]["passes"]["rows"]}
    assert passes["algsimp"]["runs"] == 4
    assert passes["algsimp"]["seconds"] == pytest.approx(0.0125, abs=5e-5)
    assert "FusionCompiler::Compile" not in passes  # of threads beside the compiler's


def test_a_trace_of_neither_runs_nor_compilations_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.xplane.pb"
    plane = PlaneWriter("/host:CPU")
    plane.line("python", [Event(plane.kind("f"), 0, 5)])
    path.write_bytes(file_of([plane]))
    _, err, code = run(["profile", str(path)], folder=Path(), settings={})
    assert code == 2
    assert "has no timed operations" in err


# --- flags ---


def test_options_of_a_compilation_without_flags_are_the_defaults() -> None:
    sentence, numbers = answer("compile_options.textproto.gz")
    assert sentence == "233 flags, all with their default"
    assert numbers == {"text": "a list of compiler flags", "flags": 233, "changed": 0, "unknown": 0}


def test_flags_that_are_not_the_default_come_first(tmp_path: Path) -> None:
    path = tmp_path / "module_0001.jit_f.debug_options"
    path.write_text('xla_gpu_autotune_level: 0\nxla_dump_to: "/d"\nxla_allow_excess_precision: true\n')
    sentence, _ = answer(path)
    assert sentence == "2 of 3 flags are not the default: --xla_gpu_autotune_level, --xla_dump_to"
    out, _, _ = run([str(path)], folder=Path(), settings={})
    assert out.split("\n")[1] == "--xla_gpu_autotune_level\t0\t4\tfalse"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("--xla_a=1\n--xla_b\n", {"xla_a": "1", "xla_b": "true"}),
        ("debug_options { xla_a: 1 xla_a: 2 }", {"xla_a": "1,2"}),
        ('xla_a: "x y"\nxla_b: true', {"xla_a": "x y", "xla_b": "true"}),
    ],
)
def test_lists_of_flags_in_all_forms(text: str, settings: dict[str, str]) -> None:
    assert settings_of(text) == settings


def test_flags_in_bytes_are_those_in_text() -> None:
    """Each flag with a number, with a value of its type, as protobuf writes it."""
    text = gzip.decompress((FOLDER / "compile_options.textproto.gz").read_bytes()).decode()
    settings = settings_of(text)
    encoded, expected = b"", dict[str, str]()
    for flag in compiler_flags().values():
        value = settings.get(flag.name, "")
        if not flag.field or "," in value or not value:
            continue
        if flag.type == "bool":
            encoded += field(flag.field, int(value == "true"))
        elif flag.type in ("int32", "int64"):
            encoded += field(flag.field, int(value))
        elif flag.type == "string":
            encoded += field(flag.field, value.encode())
        else:
            continue
        expected[flag.name] = value
    assert len(expected) > 150
    assert settings_in_bytes(encoded) == expected
    assert changed_settings(settings_in_bytes(encoded)) == {}
    assert settings_in_bytes(fixed(9999, b"\0\0\x80?")) == {"field 9999": "1"}


# --- the others ---


def test_thunks_targets_and_transfers() -> None:
    assert answer("gpu.thunk_metadata.txt")[0] == "9 thunks: 7 CustomKernel, 1 CommandBuffer, 1 Sequential"
    assert answer("tpu.target_arguments.txt")[0] == "Target: v5e, 4 chips on 1 host"
    assert answer("tpu.transfer_stats.txt")[0] == "The program has no transfers with the host"


def test_a_gpu_is_named_by_its_description(tmp_path: Path) -> None:
    path = tmp_path / "gpu_target_config.pbtxt"
    path.write_text(
        'gpu_device_info {\n  core_count: 132\n  device_memory_size: 84942979072\n}\nplatform_name: "CUDA"\n'
        'device_description_str: "NVIDIA H100 80GB HBM3"\n'
    )
    assert answer(path)[0] == "Target: h100"


def test_damaged_files_are_read_as_far_as_they_go() -> None:
    text = gzip.decompress((FOLDER / "tpu.metadata.textproto.gz").read_bytes()).decode()
    random = Random(2)
    for _ in range(100):
        cut = text[: random.randrange(len(text))]
        whole = cut.count("\n}\n")
        assert len(read_text_message(cut).messages("pass_metadata")) in (whole, whole + 1)
    assert not read_text_message("}").messages("pass_metadata")
    assert read_text_message("a {" * 10_000) is not None


# --- protobufs ---


def test_a_memory_report_as_a_protobuf_is_the_report_as_text() -> None:
    """Witness: XLA wrote both of one compilation."""
    ours, theirs = ("gpu.memory-usage-report.pb", "gpu.memory-usage-report.txt")
    assert answer(ours)[0] == answer(theirs)[0]
    assert answer(ours)[1] == answer(theirs)[1]
    assert answer(ours)[1]["total_bytes"] == 24_600


def test_a_memory_profile_says_which_lines_hold_arrays() -> None:
    """Witness: the sum over `jax.live_arrays()` when the profile was saved."""
    sentence, numbers = answer("device_memory.prof")
    assert sentence == "5 arrays on cpu:0 hold 64.3 KiB; corp.py:37 (<listcomp>) holds 64 KiB (>99%)"
    assert (numbers["total_bytes"], numbers["arrays"], numbers["programs"]) == (65_792, 5, 5)
    _, _, code = run(["memspace", str(FOLDER / "device_memory.prof"), "--limit", "1KiB"], folder=Path(), settings={})
    assert code == 1


def profile(held: Sequence[tuple[str, int, int]]) -> bytes:
    """A memory profile with an array size and a count for each function."""
    strings = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "device", "gpu:0", "/u/model.py"]
    data = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    for number, (name, count, size) in enumerate(held, 1):
        labels = field(3, field(1, 5) + field(2, 6)) + field(3, field(1, 7) + field(2, 8))
        data += field(2, field(1, packed([number])) + field(2, packed([count, size])) + labels)
        data += field(4, field(1, number) + field(4, field(1, number) + field(2, 10 * number)))
        data += field(5, field(1, number) + field(2, len(strings)) + field(4, 9))
        strings.append(name)
    return data + b"".join(field(6, text.encode()) for text in strings)


def test_two_memory_profiles_tell_what_grew(tmp_path: Path) -> None:
    old, new = tmp_path / "old.prof", tmp_path / "new.prof"
    old.write_bytes(gzip.compress(profile([("init", 2, 4096), ("step", 1, 1024), ("gone", 1, 512)])))
    new.write_bytes(profile([("init", 2, 4096), ("step", 5, 5120)]))
    out, err, code = run(["diff", str(old), str(new), "--format", "json"], folder=Path(), settings={})
    assert code == 0, err
    document = json.loads(out)
    assert document["answer"]["growth_bytes"] == 4096 - 512
    rows = [(row["function"], row["growth_bytes"], row["arrays"]) for row in document["tables"]["grown_arrays"]["rows"]]
    assert rows == [("step", 4096, 4), ("gone", -512, -1)]
    screen, _, _ = run(["diff", str(old), str(new), "--format", "screen"], folder=Path(), settings={"COLUMNS": "200"})
    assert screen.startswith("Arrays grew by 3.5 KiB, from 5.5 KiB to 9 KiB; most at model.py:20 (step)\n")
    _, err, code = run(["diff", str(old), str(FOLDER / "tpu.target_arguments.txt")], folder=Path(), settings={})
    assert code == 2
    assert "can only be compared with another one" in err


def test_a_snapshot_behind_its_length_is_a_module() -> None:
    """Witness: the length that XLA wrote; the literals behind the message are the arguments."""
    path = str(FOLDER / "cpu.hlo_unoptimized_snapshot.pb")
    out, _, code = run(["parse", path, "--format", "json"], folder=Path(), settings={})
    assert code == 0
    found = json.loads(out)
    assert (found["answer"]["module"], found["answer"]["instructions"]) == ("jit_mlp", 26)
    assert found["input"]["stage"] == "before_optimizations"


@pytest.mark.parametrize(
    "name", ["cpu.hlo_unoptimized_snapshot.pb", "device_memory.prof", "gpu.memory-usage-report.pb"]
)
def test_damaged_protobufs_end_in_an_answer_or_an_error(name: str, tmp_path: Path) -> None:
    data = (FOLDER / name).read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f") else data
    random, path = Random(name), tmp_path / "damaged.pb"
    for _ in range(40):
        damaged = bytearray(data[: random.randrange(1, len(data))])
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        _, err, code = run([str(path)], folder=Path(), settings={})
        assert code in (0, 1, 2), err
        assert "internal error" not in err


# --- flags of two compilations ---


def with_options(data: bytes, options: bytes) -> bytes:
    """An executable of a CPU with other options: what is behind its description is an `ExecutableAndOptionsProto`."""
    length, at = number_at(data, 0, len(data))
    parts = [field(number, options if number == 2 else value) for number, value in read_fields(data[at + length :])]
    return data[: at + length] + b"".join(parts)


def test_diff_names_the_flags_that_made_another_executable(tmp_path: Path) -> None:
    data = (FIXTURES / "executables" / "cpu.executable").read_bytes()
    flag = compiler_flags()["xla_backend_optimization_level"]
    paths = []
    for level, override in ((3, b""), (1, field(7, field(1, b"xla_cpu_enable_fast_min_max") + field(2, field(2, 1))))):
        paths.append(tmp_path / f"{level}.executable")
        options = field(3, field(3, field(flag.field, level))) + override
        paths[-1].write_bytes(with_options(data, options))
    _, err, code = run(["diff", *map(str, paths)], folder=Path(), settings={})
    assert code == 0
    assert err.strip() == (
        "note: compiled with different flags: --xla_backend_optimization_level 3 → 1, "
        "--xla_cpu_enable_fast_min_max default → true"
    )
    _, err, _ = run(["diff", str(paths[0]), str(paths[0])], folder=Path(), settings={})
    assert err == ""


def test_diff_names_the_flags_beside_two_dumps(tmp_path: Path) -> None:
    text = (FIXTURES / "executables" / "cpu.txt").read_text()
    for name, flags in (("a", 'xla_dump_to: "a"\n'), ("b", 'xla_dump_to: "b"\nxla_allow_excess_precision: false\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(text)
        (tmp_path / name / "module_0001.jit_f.debug_options").write_text(flags)
    _, err, _ = run(["diff", str(tmp_path / "a"), str(tmp_path / "b")], folder=Path(), settings={})
    assert "compiled with different flags: --xla_allow_excess_precision default → false\n" in err
    _, err, _ = run(["diff", str(tmp_path / "a"), str(tmp_path / "a")], folder=Path(), settings={})
    assert "flags" not in err


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("xla_gpu_autotune_level", "--xla_gpu_autotune_level (flag of XLA): int32, default 4."),
        ("xla_tpu_enable_async_all_to_all", "Set it in `LIBTPU_INIT_ARGS`, not in `XLA_FLAGS`."),
        ("xla_gpu_enable_async_all_gather", "It was removed from XLA."),
        ("xla_gpu_autotune_levle", "is not a flag of XLA or libtpu; the nearest is `--xla_gpu_autotune_level`."),
    ],
)
def test_help_explains_flags(word: str, meaning: str) -> None:
    out, _, code = run(["help", "flag", word], folder=Path(), settings={"COLUMNS": "200"})
    assert code == 0
    assert meaning in " ".join(out.split())


def test_every_flag_has_an_entry() -> None:
    assert len(compiler_flags()) > 1990
    for name in compiler_flags():
        (line,) = _of_flag(name)
        assert line.startswith(f"**--{name}** (flag of "), name


# --- messages as protobufs ---

PROTO = FOLDER / "proto"


PAIRS = ["basic_compiler_metadata", "execution_options", "target_arguments", "transfer_stats", "tpu_comp_env"]


@pytest.mark.parametrize("name", [*PAIRS, "thunk_metadata"])
def test_a_protobuf_has_the_answer_of_its_text(name: str) -> None:
    """Witness: libtpu wrote one compilation in both forms (jax 0.10.2, libtpu 0.0.52, v5e:2x2)."""
    assert answer(PROTO / f"jit_f.{name}.pb") == answer(PROTO / f"jit_f.{name}.txt")


def test_settings_of_the_compiler_of_tpus_without_flags_have_their_defaults() -> None:
    """Witness: libtpu 0.0.52 wrote them for a compilation without flags, where AUTO stands for the flag `auto`."""
    sentence, _ = answer(PROTO / "jit_f.tpu_comp_env.pb")
    assert sentence == "757 flags, all with their default"
    data = (PROTO / "jit_f.tpu_comp_env.pb").read_bytes()
    assert changed_settings({**settings_in_environment(data), "xla_tpu_accurate_log1p": "ENABLED"}) == {
        "xla_tpu_accurate_log1p": ("false", "ENABLED")
    }


@pytest.mark.parametrize("form", ["pb", "txt"])
def test_the_configuration_of_a_module_has_its_layout_and_its_flags(form: str) -> None:
    """Witness: both forms are of one program, whose dump forms differ (jax 0.10.2, libtpu 0.0.52, v5e:2x2)."""
    path = str(PROTO / f"jit_f.hlo_module_config.{form}")
    screen, _, _ = run([path, "--format", "screen"], folder=Path(), settings={"COLUMNS": "200"})
    text = " ".join(screen.split())
    assert "1 replica, 4 partitions, partitioned by Shardy." in text
    assert "1 argument (f32[64,128]{1,0:T(8,128)}) of 32 KiB, result f32[32,128]{1,0:T(8,128)}." in text
    assert "--xla_dump_hlo_snapshots true false" in text
    assert "is not a flag" not in text


@pytest.mark.parametrize("name", ["topology.pb", "topology.textproto"])
def test_a_topology_names_the_chip(name: str) -> None:
    sentence, numbers = answer(PROTO / name)
    assert sentence == "Target: v5e, 4 chips on 1 host"
    assert numbers["chip"] == "v5e"


def test_the_options_of_a_compilation_as_protobuf() -> None:
    """Witness: the program was compiled with these two options; enums are numbers there, which is no difference."""
    sentence, numbers = answer(PROTO / "compile_options.pb")
    assert "--xla_dump_hlo_as_proto" in sentence
    assert numbers["changed"] == 1 + ("--xla_dump_to" in sentence)


@pytest.mark.parametrize("name", sorted(each.name for each in PROTO.glob("*.pb")))
def test_damaged_messages_are_refused_or_answered(name: str, tmp_path: Path) -> None:
    random, data = Random(7), (PROTO / name).read_bytes()
    for number in range(20):
        broken = bytearray(data[: random.randrange(len(data))])
        for at in random.sample(range(len(broken)), min(2, len(broken))):
            broken[at] = random.randrange(256)
        path = tmp_path / name
        path.write_bytes(broken)
        _, err, code = run([str(path)], folder=Path(), settings={})
        assert code in (0, 2), (number, err)
        assert "internal error" not in err


def test_a_dump_of_priority_fusion_alone() -> None:
    """Witness: 16 + 2 producers are refused in the file, 23 steps fuse, and the names of their results are 15."""
    sentence, numbers = answer(FIXTURES / "gpu_fusion" / "b200" / "narrow" / "priority_fusion_dump.txt.gz")
    assert sentence.startswith("Priority fusion: 23 fusions into 15 kernels")
    assert (numbers["fused"], numbers["kernels"], numbers["ineligible"]) == (23, 15, 18)


def test_an_empty_ptx_file_says_what_it_means(tmp_path: Path) -> None:
    path = tmp_path / "module_0001.jit_f.ptx"
    path.touch()
    _, err, code = run([str(path)], folder=Path(), settings={})
    assert code == 2
    assert "is empty" in err
    assert "XLA compiled no kernel for this module" in err


PTXAS = """ptxas info    : Compiling entry function 'wrapped_transpose_2' for 'sm_90a'
ptxas info    : Function properties for wrapped_transpose_2
    0 bytes stack frame, {} bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, 4352 bytes smem, 368 bytes cmem[0]
"""


@pytest.mark.parametrize(("log", "words"), [("k.ptxas", "spills 24 bytes a thread (40 registers)"), ("other.txt", "")])
def test_the_output_of_ptxas_is_read_next_to_ptx(log: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes((FOLDER.parent / "code_files" / "conv.ptx").read_bytes())
    (tmp_path / log).write_text(PTXAS.format(16))
    sentence, _ = answer(path)
    assert words in sentence
    assert ("spills" in sentence) is bool(words)
