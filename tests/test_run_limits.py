"""What a run may take: hostile modules stop at stated limits with their place, and what ends early leaves nothing behind."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hlo_cli import HloError, cli, parse_module
from hlo_cli import run as run_module
from hlo_cli.analysis.evaluate.limits import estimate, work_of
from hlo_cli.analysis.evaluate.run import summary_of
from hlo_cli.analysis.evaluate.settings import Limits
from hlo_cli.analysis.semantics.typed_values import array_of
from hostile_programs import PROGRAMS

ROOT = Path(__file__).parent.parent
SEED = 20261123
LIMITS = Limits(max_bytes=1 << 30, max_operations=10**10, max_iterations=1000, max_seconds=20.0)
SMALL = Limits(max_bytes=1 << 24, max_operations=10**7, max_iterations=100, max_seconds=5.0)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_hostile_programs_stop_at_their_place(name: str) -> None:
    make, words = PROGRAMS[name]
    module = parse_module(make(Random(f"{SEED} {name}")))
    began = time.process_time()
    with pytest.raises(HloError) as found:
        run_module(module, limits=LIMITS)
    assert time.process_time() - began < 5
    diagnostic = found.value.diagnostic
    assert any(each in diagnostic.message for each in words.split("|"))
    assert diagnostic.source is module.source
    assert diagnostic.span is not None
    line = module.source.text[diagnostic.span.start : diagnostic.span.end]
    assert re.match(r"(ROOT )?bad =", line)


@pytest.mark.slow
def test_hostile_programs_take_little_memory(tmp_path: Path) -> None:
    """One process runs all of them: it grows by less than the limit."""
    paths = []
    for at, name in enumerate(sorted(PROGRAMS)):
        paths.append(tmp_path / f"{at}.hlo")
        paths[-1].write_text(PROGRAMS[name][0](Random(SEED)))
    script = f"""
from hlo_cli import cli
limits = ["-q", "--max-iterations", "1000", "--max-memory", "1GiB", "--max-operations", "1e10", "--max-seconds", "20"]
codes = [cli.main(["run", path, *limits], standalone=False) for path in {[str(each) for each in paths]!r}]
print(set(codes), {PEAK})
"""
    done = hlo_process("-c", script, timeout=60)
    codes, peak = done.stdout.rsplit(maxsplit=1)
    assert codes == "{2}"
    assert int(peak) < 300 << 10  # KiB
    assert "Traceback" not in done.stderr


PEAK = "next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))"
"""The most memory of this process in KiB; `ru_maxrss` begins with that of the process that started it."""


def hlo_process(*arguments: str, timeout: float = 30, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )


LONG_KERNELS = {
    "fft": "p = f32[] parameter(0)  w = c64[9999991] broadcast(c), dimensions={}  c = c64[] convert(p)"
    "  ROOT bad = c64[9999991] fft(w), fft_type=FFT, fft_length={9999991}",
    "dot": "p = f32[] parameter(0)  w = f32[4096,4096] broadcast(p), dimensions={}"
    "  ROOT bad = f32[4096,4096] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "sort": "p = f32[] parameter(0)  w = f32[9000000] broadcast(p), dimensions={}"
    "  ROOT bad = f32[9000000] sort(w), dimensions={0}, to_apply=less",
    "window": "p = f32[] parameter(0)  w = f32[2000,2000] broadcast(p), dimensions={}"
    "  ROOT bad = f32[1001,1001] reduce-window(w, p), window={size=1000x1000}, to_apply=plus",
    "kernel of a convolution": "p = f32[] parameter(0)  x = f32[1,1,1000] broadcast(p), dimensions={}"
    "  k = f32[1,1,900000] broadcast(p), dimensions={}  ROOT bad = f32[1,1,900000] convolution(x, k), "
    "window={size=900000 pad=899499_899500}, dim_labels=bf0_oi0->bf0",
    "solve": "p = f32[] parameter(0)  w = f32[4000,4000] broadcast(p), dimensions={}"
    "  ROOT bad = f32[4000,4000] triangular-solve(w, w), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
}
WIDE = "wide { wa = f32[3] parameter(0)  wb = f32[3] parameter(1)  ROOT wc = f32[3] add(wa, wb) }\n"
SCALARS = """plus { pa = f32[] parameter(0)  pb = f32[] parameter(1)  ROOT pc = f32[] add(pa, pb) }
less { la = f32[] parameter(0)  lb = f32[] parameter(1)  lc = f32[] sine(la)
  ROOT le = pred[] compare(lc, lb), direction=LT }
"""


@pytest.mark.parametrize("name", sorted(LONG_KERNELS))
def test_a_long_kernel_does_not_begin_without_time_for_it(name: str) -> None:
    text = f"HloModule m\n{SCALARS}ENTRY e {{ {LONG_KERNELS[name]} }}\n"
    if name == "fft":
        text = text.replace("w = c64[9999991] broadcast(c), dimensions={}  c = c64[] convert(p)", "c = c64[] convert(p)"
                            "  w = c64[9999991] broadcast(c), dimensions={}")  # fmt: skip
    limits = Limits(max_bytes=1 << 40, max_operations=10**15, max_seconds=0.15)
    began = time.process_time()
    with pytest.raises(HloError, match=r"exceeds the limit of 0.15 seconds") as found:
        run_module(parse_module(text), limits=limits)
    assert time.process_time() - began < 1
    span = found.value.diagnostic.span
    assert span is not None
    assert text[span.start :].startswith("ROOT bad")


def test_work_in_loops_of_unknown_length_is_counted() -> None:
    make, _ = PROGRAMS["unknown trip count"]
    with pytest.raises(HloError, match=r"exceeds the limit of 1e\+07 scalar operations, in the computation b"):
        run_module(parse_module(make(Random(SEED))), limits=Limits(max_operations=10**7))


def test_the_result_may_be_a_view_of_terabytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "r = f32[1000000,1000000] broadcast(f32[] a), dimensions={}"
    result = run_module(parse_module(text), [np.array(3, np.float32)]).result
    summary = summary_of(array_of(result))
    assert (summary.least, summary.most, summary.mean, summary.zeros) == (3.0, 3.0, 3.0, 0)
    (tmp_path / "m.hlo").write_text(text)
    assert cli.main(["run", "m.hlo", "-q", "-o", "r.npz"], standalone=False) == 2
    assert "the values to write have" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["m.hlo"]


SINGLES = """
r = f32[4,3] broadcast(f32[3] a), dimensions={1}
r = f32[3,2] slice(f32[5,4] a), slice={[1:4], [0:4:2]}
r = f32[9] pad(f32[3] a, f32[] b), padding=1_2_1
r = f32[2,3] reshape(f32[6] a)
r = f32[3,2] transpose(f32[2,3] a), dimensions={1,0}
r = f32[6] concatenate(f32[2] a, f32[4] b), dimensions={0}
r = f32[2] dynamic-slice(f32[5] a, s32[] b), dynamic_slice_sizes={2}
r = f32[2,4] gather(f32[5,4] a, s32[2] b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
r = f32[5,4] scatter(f32[5,4] a, s32[2] b, f32[2,4] c), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus
r = f32[2] reduce(f32[2,3] a, f32[] b), dimensions={1}, to_apply=plus
r = f32[5] reduce-window(f32[7] a, f32[] b), window={size=3}, to_apply=plus
r = f32[4] reduce-window(f32[7] a, f32[] b), window={size=2 stride=2 pad=1_0 lhs_dilate=1 rhs_dilate=1}, to_apply=plus
r = f32[8] select-and-scatter(f32[8] a, f32[4] b, f32[] c), window={size=2 stride=2}, select=less, scatter=plus
r = f32[1,2,4] convolution(f32[1,3,6] a, f32[2,3,3] b), window={size=3}, dim_labels=bf0_oi0->bf0, feature_group_count=1
r = f32[2,4] dot(f32[2,3] a, f32[3,4] b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
r = f32[6] sort(f32[6] a), dimensions={0}, to_apply=less
r = f32[6] map(f32[6] a, f32[6] b), dimensions={0}, to_apply=plus
r = c64[8] fft(c64[8] a), fft_type=FFT, fft_length={8}
r = f32[6] iota(), iota_dimension=0
r = f32[2] get-tuple-element((f32[2], s32[3]) a), index=0
r = f32[4] reduce-precision(f32[4] a), exponent_bits=5, mantissa_bits=2
r = (f32[2], s32[2]) topk(f32[6] a), k=2, largest=true
r = f32[<=4] set-dimension-size(f32[4] a, s32[] b), dimensions={0}
r = s32[] get-dimension-size(f32[4] a), dimensions={0}
r = f32[3,3] cholesky(f32[3,3] a), lower=true
r = f32[4] reverse(f32[4] a), dimensions={0}
r = s32[4] shift-left(s32[4] a, s32[4] b)
r = u8[4,4] bitcast-convert(f32[4] a)
r = (u64[2], u32[8]) rng-bit-generator(u64[2] a), algorithm=rng_philox
r = f32[4,4] bitcast(f32[16] a)
""".strip().splitlines()
NUMBERS = (-1, 0, 1, 2, 3, 4, 5, 7, 1000, 2**20, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**63))


def mutants(count: int, seed: int) -> Iterator[str]:
    """Modules of one instruction, whose shape is inferred where that is possible, with one to three other numbers."""
    random = Random(seed)
    for at in range(count):
        line = SINGLES[at % len(SINGLES)]
        if random.random() < 0.7:
            line = re.sub(r"^r = (\([^()]*\)|\S+) ", "r = ", line)
        for _ in range(random.randrange(1, 4)):
            if numbers := list(re.finditer(r"(?<![a-z\d])-?\d+", line)):
                chosen = random.choice(numbers)
                line = line[: chosen.start()] + str(random.choice(NUMBERS)) + line[chosen.end() :]
        if random.random() < 0.1:
            line = re.sub("to_apply=(plus|less)", "to_apply=wide", line)
        operands = re.findall(r"(\([^()]*\)|\w+\[[^\]]*\]) ([abc])(?=[,)])", line)
        body = "\n".join(f"  {name} = {shape} parameter({at})" for at, (shape, name) in enumerate(operands))
        plain = re.sub(r"(\([^()]*\)|\w+\[[^\]]*\]) (?=[abc][,)])", "", line)
        yield f"HloModule m\n{SCALARS}{WIDE}ENTRY e {{\n{body}\n  ROOT {plain}\n}}\n"


@pytest.mark.parametrize(
    ("count", "seed"), [(90, 1), (90, 2), *(pytest.param(2000, at, marks=pytest.mark.long) for at in range(3, 8))]
)
def test_numbers_out_of_range_are_errors(count: int, seed: int) -> None:
    """No number in a shape or attribute leads to anything but a result, or an error that can be read, and soon."""
    ran = 0
    for text in mutants(count, SEED + seed):
        began = time.process_time()
        words = ""
        try:
            run_module(parse_module(text), limits=SMALL)
            ran += 1
        except HloError as error:
            words = str(error)
        assert len(words) < 3000, text
        assert time.process_time() - began < 3, text
    assert ran > count // 20


def waiting(folder: Path) -> subprocess.Popen[bytes]:
    """A run of an endless loop that is to write a file."""
    (folder / "m.hlo").write_text(
        "HloModule m\nc { cp = f32[] parameter(0)  ROOT ct = pred[] constant(true) }\n"
        'b { bp = f32[] parameter(0)\n  bq = f32[] custom-call(bp), custom_call_target="here"\n'
        "  ROOT bn = f32[] negate(bq) }\n"
        "ENTRY e { p = f32[] parameter(0)\n  ROOT bad = f32[] while(p), condition=c, body=b }\n"
    )
    (folder / "f.py").write_text("import os\n\ndef stub(x):\n    open('runs', 'a').close()\n    return x\n")
    command = ("-m", "hlo_cli", "run", "m.hlo", "--stub", "here=f.py", "-o", "out.npz", "--max-iterations", "100000000")
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(600):
        if (folder / "runs").exists():
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing_behind(number: int, code: int, tmp_path: Path) -> None:
    process = waiting(tmp_path)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code
    assert error == b""
    assert sorted(os.listdir(tmp_path)) == ["f.py", "m.hlo", "runs"]


@pytest.mark.slow
def test_a_signal_while_a_file_is_written_leaves_nothing_behind(tmp_path: Path) -> None:
    script = f"""
import os, signal, sys
from hlo_cli import cli
from hlo_cli.commands.run import command as running
from hlo_cli.commands.options import writing

def chunks():
    yield b"begun"
    os.kill(os.getpid(), signal.SIGTERM)
    yield b"never"

from hlo_cli.commands.run.command import bounded
try:
    with bounded(1 << 30):
        writing.write_bytes(chunks(), {str(tmp_path / "out.npz")!r})
except SystemExit as end:
    print(end.code)
"""
    done = hlo_process("-c", script)
    assert done.stdout == "143\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_memory_that_no_estimate_knows_is_limited(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text('r = f32[] custom-call(f32[] a), custom_call_target="big"')
    (tmp_path / "f.py").write_text("import numpy\n\ndef stub(a):\n    return numpy.ones(1 << 31).sum()\n")
    given = ("run", "m.hlo", "--stub", "big=f.py", "--max-memory", "1GiB", "-q")
    script = f"from hlo_cli import cli\nprint(cli.main({list(given)!r}, standalone=False), {PEAK})"
    done = hlo_process("-c", script, cwd=tmp_path)
    code, peak = done.stdout.split()
    assert (code, "MemoryError" in done.stderr) == ("2", True)
    assert int(peak) < 3 << 20  # KiB


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing/out.npz", "the directory missing does not exist"), ("/dev/full", "No space left on device")],
)
def test_files_that_cannot_be_written(path: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text("r = f32[] negate(f32[] a)")
    for option in ("-o", "--save-raw"):
        given = [option, path, *(("--format", "npz") if option == "-o" else ())]
        assert cli.main(["run", "m.hlo", *given], standalone=False) == 2
        error = capsys.readouterr().err
        assert f"cannot write {path}: {words}" in error
    assert os.listdir(tmp_path) == ["m.hlo"]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text("r = f32[100000] negate(f32[100000] a)")
    given = ["run", "m.hlo", "-q", "-o", "r.npz"]
    script = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (9999, 9999))\n"
        f"from hlo_cli import cli\nprint(cli.main({given!r}, standalone=False))"
    )
    done = hlo_process("-c", script, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("2\n", "error: cannot write r.npz: File too large\n")
    assert os.listdir(tmp_path) == ["m.hlo"]


def test_limits_of_memory_are_put_back() -> None:
    from hlo_cli.commands.run.command import bounded

    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGTERM)
    with bounded(1 << 30):
        assert resource.getrlimit(resource.RLIMIT_AS) != before[0]
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGTERM)) == before


def test_estimates_know_what_is_copied() -> None:
    """A reshape of a view takes memory, and one of an array that is in order takes none."""
    view = (
        "ENTRY e { p = f32[] parameter(0)  w = f32[64,64] broadcast(p), dimensions={}  ROOT r = f32[4096] reshape(w) }"
    )
    plain = (
        "ENTRY e { p = f32[64,64] iota(), iota_dimension=0  n = f32[64,64] negate(p)  ROOT r = f32[4096] reshape(n) }"
    )
    assert estimate(parse_module(view)).live_bytes == 4 * 4096
    assert estimate(parse_module(plain)).live_bytes == 2 * 4 * 4096


_WORK = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
odd { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] multiply(a, b)  ROOT r = f32[] add(c, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
more { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] negate(a)  ROOT r = pred[] compare(c, b), direction=LT }
ENTRY e {
  x = f32[8,16] parameter(0)   z = f32[] constant(0)   h = bf16[8,16] parameter(1)   q = f8e4m3fn[8,16] parameter(2)
  s = f32[16,16] parameter(3)  i = s32[4,1] parameter(4)  u = f32[4,16] parameter(5)  c = c64[8,16] parameter(6)
  y = f32[16,32] parameter(7)  w = f32[2,9,9,4] parameter(8)  k = f32[3,3,4,6] parameter(9)  j = s32[] parameter(10)
  ROOT r = %s
}"""
_ROWS = "gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}"
_BLURRED = "convolution(w, k), dim_labels=b01f_01io->b01f, window={size=3x3%s}"


@pytest.mark.parametrize(
    ("operation", "operations", "scratch"),
    [
        ("f32[8,16] add(x, x)", 8 * 16, 0),
        ("bf16[8,16] add(h, h)", 8 * 16, 8 * 128),  # each is f64 before it is rounded
        ("f8e4m3fn[8,16] add(q, q)", 8 * 16, 3 * 8 * 128),
        ("f32[8,16] dynamic-update-slice(x, u, j, j)", 4 * 16, 0),  # in place
        (
            "f32[8,32] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            8 * 16 * 32,
            8 * (128 + 512 + 256),
        ),
        ("f32[8] reduce(x, z), dimensions={1}, to_apply=add", 128, 8 * 128),
        ("f32[8,13] reduce-window(x, z), window={size=1x4}, to_apply=add", 8 * 13 * 4, 8 * (128 + 8 * 13)),
        ("f32[7,13] reduce-window(x, z), window={size=2x4}, to_apply=add", 7 * 13 * 8, 8 * (128 + 91 + 2 * 128)),
        ("f32[1,1] reduce-window(x, z), window={size=8x16}, to_apply=add", 128, 8 * (128 + 1 + 2 * 128)),
        ("f32[7,13] reduce-window(x, z), window={size=2x4}, to_apply=odd", 7 * 13 * 8, 2 * 5 * 128 + 8 * 91),
        ("f32[8,16] sort(x), dimensions={1}, to_apply=less", 128 * 5, 2 * 8 * 128),  # 16 has 5 bits
        ("f32[8,16] sort(x), dimensions={1}, to_apply=more", 128 * 5 * 5, 8 * 8 * 128),
        ("c64[8,16] fft(c), fft_type=FFT, fft_length={16}", 128 * 5, 4 * 8 * 128),
        (f"f32[2,7,7,6] {_BLURRED % ''}", 2 * 7 * 7 * 6 * 36, 8 * (648 + 216 + 588)),
        # three taps at each of 9 places of a row, less two on its ends
        (f"f32[2,9,9,6] {_BLURRED % ' pad=1_1x1_1'}", 2 * 25 * 25 * 4 * 6, 8 * (648 + 216 + 972)),
        ("f32[16,16] cholesky(s), lower=true", 16 * 256, 3 * 8 * 256),
        (
            f"f32[4,16] {_ROWS}",
            4 * 16,
            8 * 2 * 4,
        ),
    ],
)
def test_work_is_what_a_hand_counts(operation: str, operations: int, scratch: int) -> None:
    root = parse_module(_WORK % operation).entry.root
    assert root is not None
    found = work_of(root)
    assert (found.operations, found.scratch) == (operations, scratch)


def test_what_is_applied_to_elements_is_work_of_each() -> None:
    root = parse_module(_WORK % "f32[8] reduce(x, z), dimensions={1}, to_apply=odd").entry.root
    assert root is not None
    once, thrice = work_of(root), work_of(root, 3, 10)
    assert thrice.operations == 3 * once.operations
    assert thrice.scratch == once.scratch + 128 * 10
    plain = parse_module(_WORK % "f32[8] reduce(x, z), dimensions={1}, to_apply=add").entry.root
    assert plain is not None
    assert work_of(plain, 3, 10).scratch == work_of(plain).scratch, "numpy adds"
