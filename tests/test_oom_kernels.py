"""Out-of-memory errors of kernels next to the dump of the program: real ones, of `data/kernel_oom.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hlo_cli import load
from hlo_cli.analysis.memory.oom_advice import is_shown
from hlo_cli.analysis.memory.oom_kernel import FailedKernel, failed_kernel
from hlo_cli.cli import main
from hlo_cli.ir.out_of_memory import OutOfMemory
from hlo_cli.source import Source
from hlo_cli.syntax.out_of_memory.read_logs import newest, parse_out_of_memory

DATA = Path(__file__).parent / "data" / "kernel_oom"
CASES = sorted(path.name for path in DATA.iterdir())
MIB = 1 << 20
FACTS = {
    # what holds how much, by hand: blocks of padded rows and columns, times buffers
    "windows_v5e": {"out 0": 16 * MIB, "scratch 0": 16 * MIB, "in 0": 8 * MIB, "in 1": 8 * MIB},
    "own_limit_v6e": dict.fromkeys(("in 0", "in 1", "out 0", "scratch 0"), MIB),
    "two_7x": {"out 0": 16 * MIB, "scratch 0": 16 * MIB, "in 0": 8 * MIB, "in 1": 8 * MIB},
    "unnamed_v6e": {"in 0": 128 * MIB, "out 0": 128 * MIB},
    "capacity_v5e": {"in 0": 128 * MIB, "out 0": 128 * MIB},
    "capacity_7x": {"in 0": 128 * MIB, "out 0": 128 * MIB},
    "scratch_v6e": {"scratch 0": 36 * MIB, "in 0": 64 << 10, "out 0": 64 << 10},
    "smem_v5e": {"scratch 0": -(-200000 // 128) * 512, "scratch 1": 512 << 10},
    "prefetched_7x": {"prefetched 0": -(-300000 // 128) * 512},
    "prefetched_rows_v5e": {"prefetched 0": MIB},
}
LIMITS = {
    "windows_v5e": (16 * MIB, "default of v5e"),
    "own_limit_v6e": (2 * MIB, "vmem_limit_bytes of the kernel"),
    "two_7x": (32 * MIB, "default of 7x"),
    "unnamed_v6e": (128 * MIB - (64 << 10), "VMEM of v6e for kernels"),
    "capacity_v5e": (128 * MIB, "VMEM of v5e"),
    "capacity_7x": (64 * MIB, "VMEM of 7x"),
    "scratch_v6e": (32 * MIB, "default of v6e"),
    "smem_v5e": (MIB, "SMEM of v5e"),
    "prefetched_7x": (MIB, "SMEM of 7x"),
    "prefetched_rows_v5e": (MIB, "SMEM of v5e"),
}


def message_of(case: str) -> OutOfMemory:
    """The error of a case."""
    path = DATA / case / "error.txt"
    return newest(parse_out_of_memory(Source(str(path), path.read_text(encoding="utf-8"))))


def found_in(case: str, stage: str = "after_optimizations") -> FailedKernel:
    """The kernel of the error of a case in its dump."""
    [path] = (DATA / case).glob(f"*.{stage}.txt")
    found = failed_kernel(message_of(case), load(str(path)), chip=case.rpartition("_")[2])
    assert found is not None
    return found


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """The JSON that a command writes."""
    assert main([*arguments, "--format", "json"], standalone=False) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def test_every_case_has_facts() -> None:
    assert CASES == sorted(FACTS) == sorted(LIMITS)


@pytest.mark.parametrize("case", CASES)
def test_parts_and_limit(case: str) -> None:
    found = found_in(case)
    assert {part.label: part.bytes for part in found.parts} == FACTS[case]
    assert [part.bytes for part in found.parts] == sorted(FACTS[case].values(), reverse=True)
    assert (found.limit_bytes, found.limit_origin) == LIMITS[case]
    assert found.match == "instruction"


@pytest.mark.parametrize("case", CASES)
def test_libtpu_agrees(case: str) -> None:
    """What libtpu lists is what the parts hold; a limit that it says is exceeded is, but for what it needs itself."""
    message, found = message_of(case), found_in(case)
    listed = [part for part in found.parts if part.reported_bytes is not None]
    assert all(is_shown(part.bytes, part.reported_bytes or 0) for part in listed)
    if message.kind != "tpu-vmem-scoped":
        assert len(listed) == len(message.culprits)
    assert found.exceeded_by_bytes is not None
    assert found.exceeded_by_bytes > 0 or case == "prefetched_rows_v5e"
    # libtpu gives up at the first part that does not fit, so it has counted at most all parts
    assert is_shown(found.held_bytes, message.used_bytes or 0) or found.held_bytes >= (message.used_bytes or 0) - 1024


@pytest.mark.parametrize("case", CASES)
def test_before_optimization_the_call_has_another_name(case: str) -> None:
    before, after = found_in(case, "before_optimizations"), found_in(case)
    # a single allocation that is too large has no op_name
    assert before.match == ("kernel name" if case in ("capacity_7x", "prefetched_7x") else "op_name")
    assert before.kernel.name == after.kernel.name
    assert before.kernel.instruction.name != after.kernel.instruction.name
    if not case.startswith("scratch"):
        assert {part.label: part.bytes for part in before.parts} == FACTS[case]


def test_of_two_kernels_the_one_in_the_error() -> None:
    assert found_in("two_7x").kernel.instruction.name == "large.1"


def test_no_kernel_of_that_name() -> None:
    [path] = (DATA / "scratch_v6e").glob("*.after_optimizations.txt")
    assert failed_kernel(message_of("windows_v5e"), load(str(path))) is None


def test_without_a_chip_the_limit_is_that_of_the_text() -> None:
    [path] = (DATA / "windows_v5e").glob("*.after_optimizations.txt")
    found = failed_kernel(message_of("windows_v5e"), load(str(path)))
    assert found is not None
    assert (found.limit_bytes, found.limit_origin) == (16 * MIB, "by the text")


@pytest.mark.parametrize("case", CASES)
def test_the_command_names_the_kernel_and_the_chip(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(DATA / case)
    report = answered(capsys, "memspace", folder, "--oom", f"{folder}/error.txt")
    numbers = report["answer"]
    assert isinstance(numbers, dict)
    assert numbers["kernel_bytes"] == sum(FACTS[case].values())
    assert numbers["kernel_limit_bytes"] == LIMITS[case][0]
    assert main(["memspace", folder, "--oom", f"{folder}/error.txt", "--format", "screen"], standalone=False) == 0
    out = capsys.readouterr().out
    [command] = [line for line in out.splitlines() if line.startswith("next: ")]
    chip = case.rpartition("_")[2]
    assert command == f"next: hlo kernel {folder} {numbers['kernel']} --chip {chip}"
    assert main(command.split()[2:], standalone=False) == 0


def test_an_error_next_to_its_dump(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In the directory of the dump, or next to that directory; without a dump, the error alone is answered."""
    error = tmp_path / "error.txt"
    shutil.copy(DATA / "windows_v5e" / "error.txt", error)
    alone = answered(capsys, str(error))
    shutil.copytree(DATA / "windows_v5e", tmp_path / "dump")
    beside = answered(capsys, str(error))
    inside = answered(capsys, str(tmp_path / "dump" / "error.txt"))
    plain = answered(capsys, "memspace", "--oom", str(error))
    parts = [
        sorted(report["tables"]) for report in (alone, beside, inside, plain) if isinstance(report["tables"], dict)
    ]
    assert parts[0] != parts[1] == parts[2] == parts[3]
    assert "kernel_parts" in parts[1]


def test_of_several_modules_the_one_with_the_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for case in ("windows_v5e", "capacity_v5e", "two_7x"):
        for path in (DATA / case).glob("*.after_optimizations.txt"):
            shutil.copy(path, tmp_path)
    assert (
        main(
            ["memspace", str(tmp_path), "--oom", str(DATA / "capacity_v5e" / "error.txt"), "--format", "screen"],
            standalone=False,
        )
        == 0
    )
    found = capsys.readouterr()
    assert "note: using jit_run (0014), which has the kernel of the error" in found.err
    [path] = tmp_path.glob("module_0014*")
    assert f"next: hlo kernel {path} wide.1" in found.out.splitlines()


def test_a_dump_of_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    dump = str(Path(__file__).parent.parent / "fixtures" / "tpu" / "v6e_kernels")
    assert (
        main(
            ["memspace", dump, "--oom", str(DATA / "windows_v5e" / "error.txt"), "--format", "screen"], standalone=False
        )
        == 0
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "within the limit of 16 MiB: the dump is of another version of the program" in out
    assert "matmul.1 has the result bf16[4096,4096] in the text and bf16[1024,1536] in the dump" in out


def test_a_body_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    [path] = (DATA / "windows_v5e").glob("*.after_optimizations.txt")
    text = path.read_text(encoding="utf-8")
    dump = tmp_path / "bad.hlo"
    dump.write_text(text.replace('"body":"TUzv', '"body":"AAAA'), encoding="utf-8")
    assert (
        main(
            ["memspace", str(dump), "--oom", str(DATA / "windows_v5e" / "error.txt"), "--format", "screen"],
            standalone=False,
        )
        == 0
    )
    assert "the kernel matmul.1 cannot be read" in " ".join(capsys.readouterr().out.split())


def test_a_limit_is_raised_to_what_the_kernel_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """libtpu counts the 36 MiB of the scratch and gives up; windows need some more, and a 7x has 64 MiB at most."""
    folder = str(DATA / "scratch_v6e")
    assert main(["memspace", folder, "--oom", f"{folder}/error.txt", "--format", "screen"], standalone=False) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Raise the limit to 37 MiB" in out
    assert "VMEM: 127.9 MiB on v6e)" in out


CUT = """Ran out of memory in memory space vmem while allocating on stack for %matmul.1 = {shape}{{1,0}} \
custom-call(%x.1, %y.1), custom_call_target="tpu_custom_call\""""


def test_an_error_without_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The limit is then that of the chip that the dump names."""
    error = tmp_path / "error.txt"
    error.write_text(CUT.format(shape="bf16[4096,4096]"), encoding="utf-8")
    assert (
        main(["memspace", str(DATA / "windows_v5e"), "--oom", str(error), "--format", "screen"], standalone=False) == 0
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "matmul.1 holds 48 MiB of VMEM in all, 32 MiB over the limit of 16 MiB" in out


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ("", "the compiler needs more for itself, such as for registers that it spills, or the dump is of another"),
        (
            ". Scoped allocation with size 36.00M and limit 32.00M exceeded scoped vmem limit by 4.00M",
            "the compiler needs 34.6 MiB more for itself, such as for registers that it spills, or the dump is of",
        ),
    ],
)
def test_parts_within_the_limit(figures: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Spilled registers are in no dump: of kernels with many, the parts are within the limit."""
    error = tmp_path / "error.txt"
    error.write_text(CUT.format(shape="bf16[1024,1536]") + figures, encoding="utf-8")
    kernels = str(Path(__file__).parent.parent / "fixtures" / "tpu" / "v6e_kernels")
    assert (
        main(["memspace", kernels, "--oom", str(error), "--chip", "v6e", "--format", "screen"], standalone=False) == 0
    )
    assert words in " ".join(capsys.readouterr().out.split())
