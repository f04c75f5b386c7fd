"""Files that XLA writes beside dumps: passes with times, flags, thunks, targets. `data/dump_files` are of jaxlib 0.10.2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from hlo_cli.analysis.profile.compile_times import times_of_passes
from hlo_cli.commands.pasted.dump_files import _settings
from hlo_cli.ir.compiler_messages import PassRun
from hlo_cli.syntax.compiler_files.flags import changed_settings, compiler_flags, settings_in_bytes
from hlo_cli.syntax.compiler_files.text_format import read_text_message
from hlo_cli.wire import field, fixed
from in_process import run

FOLDER = Path(__file__).parent / "data" / "dump_files"


def answer(name: Path | str, *options: str) -> tuple[str, dict[str, object]]:
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
    assert sentence == ("module 2654: 208.1 ms in 329 runs of compiler passes; priority-fusion takes 143.5 ms (71%)")
    assert numbers["changed"] == 23
    assert numbers["pass_seconds"] == pytest.approx(0.204, abs=5e-5)


def test_writing_dumps_is_not_compiling() -> None:
    """Witness: as above; `pipeline-start` is where libtpu writes the dumps of a pipeline."""
    sentence, numbers = answer("tpu.metadata.textproto.gz")
    assert "copy-insertion takes 14.6 ms" in sentence
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
    assert answer(path)[0].startswith("jit_attn: ")


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
    assert _settings(text) == settings


def test_flags_in_bytes_are_those_in_text() -> None:
    """Each flag with a number, with a value of its type, as protobuf writes it."""
    text = gzip.decompress((FOLDER / "compile_options.textproto.gz").read_bytes()).decode()
    settings = _settings(text)
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
    assert answer("tpu.target_arguments.txt")[0] == "The target of a compilation: v5e, 4 chips on 1 host"
    assert answer("tpu.transfer_stats.txt")[0] == "The program has no transfers with the host"


def test_a_gpu_is_named_by_its_description(tmp_path: Path) -> None:
    path = tmp_path / "gpu_target_config.pbtxt"
    path.write_text(
        'gpu_device_info {\n  core_count: 132\n  device_memory_size: 84942979072\n}\nplatform_name: "CUDA"\n'
        'device_description_str: "NVIDIA H100 80GB HBM3"\n'
    )
    assert answer(path)[0] == "The target of a compilation: h100"


def test_damaged_files_are_read_as_far_as_they_go() -> None:
    text = gzip.decompress((FOLDER / "tpu.metadata.textproto.gz").read_bytes()).decode()
    random = Random(2)
    for _ in range(100):
        cut = text[: random.randrange(len(text))]
        whole = cut.count("\n}\n")
        assert len(read_text_message(cut).messages("pass_metadata")) in (whole, whole + 1)
    assert not read_text_message("}").messages("pass_metadata")
    assert read_text_message("a {" * 10_000) is not None
