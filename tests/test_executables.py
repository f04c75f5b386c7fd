"""Executables that PJRT serializes, and entries of JAX's compilation cache: their modules are those of the compiler."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import hlo_cli
from fusible_programs import fusible_program
from hlo_cli.inputs import executables
from hlo_cli.inputs.executables import StoredModule, modules_in_executable, unsnappy
from hlo_cli.inputs.forms import decompress
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.proto.read_module import read_proto
from hlo_cli.wire import WireError, field, varint
from in_process import run
from strategies import FIXTURES

FOLDER = FIXTURES / "executables"
STORED = {
    "cpu.executable": "cpu",
    "zstd-cache": "cpu",
    "zlib-cache": "cpu",
    "gpu.executable": "gpu",
    "tpu.executable": "tpu",
}
LIMIT = 1 << 30
KEY = "0123456789abcdef" * 4


def stored(name: str) -> Path:
    if name.startswith("zstd"):
        pytest.importorskip("zstandard")
    return FOLDER / name


def modules(data: bytes) -> tuple[StoredModule, ...]:
    return modules_in_executable(data, "m", limit=LIMIT)


def comparable(module: Module) -> list[str]:
    """The lines of a module without its tables of frames, whose numbers differ; configurations with sorted keys."""
    text = re.sub(r"(?s)\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n.*?(?=\n\n|\Z)", "", str(module))
    text = re.sub(r" ?stack_frame_id=\d+", "", text)
    return [re.sub(r"backend_config=(\{.*\})", _sorted, line) for line in text.split("\n") if line]


def _sorted(found: re.Match[str]) -> str:
    return json.dumps(json.loads(found[1]), sort_keys=True)


@pytest.mark.parametrize("name", STORED)
def test_the_module_is_that_of_the_compiler(name: str) -> None:
    """`to_string()` of the same executable: header, names, order, configurations, and lines of the source."""
    ours, xlas = hlo_cli.load(str(stored(name))), hlo_cli.load(str(FOLDER / f"{STORED[name]}.txt"))
    assert comparable(ours) == comparable(xlas)
    pairs = zip(ours.computations, xlas.computations, strict=True)
    for one, other in (pair for a, b in pairs for pair in zip(a.instructions, b.instructions, strict=True)):
        assert ours.location(one) == xlas.location(other)


@pytest.mark.parametrize("name", STORED)
def test_commands_take_it_as_a_dump(name: str) -> None:
    path = str(stored(name))
    out, err, code = run(["diff", "--exit-code", path, str(FOLDER / f"{STORED[name]}.txt")], folder=Path(), settings={})
    assert (code, out.count("\n")) == (0, 1), (out, err)
    out, _, code = run(["parse", "--format", "json", path], folder=Path(), settings={})
    assert code == 0
    assert json.loads(out)["input"]["stage"] == "after_optimizations"


def test_a_tpu_executable_has_the_program_as_it_came_in() -> None:
    path = str(FOLDER / "tpu.executable")
    before, after = hlo_cli.load(path, stage="before_optimizations"), hlo_cli.load(path)
    assert not before.is_scheduled
    assert after.is_scheduled
    out, err, _ = run(["parse", path], folder=Path(), settings={})
    assert "using stage after_optimizations, the latest of 2" in err
    assert out == run(["parse", f"{path}#2"], folder=Path(), settings={})[0].replace(f"{path}#2", path)


def test_a_folder_of_jax_is_a_folder_of_modules(tmp_path: Path) -> None:
    """Entries have no extension; files of access times lie between them."""
    for name in ("zlib-cache", "cpu.executable"):
        shutil.copy(FOLDER / name, tmp_path / f"jit_{name[:4]}-{KEY}-cache")
        (tmp_path / f"jit_{name[:4]}-{KEY}-atime").write_bytes(bytes(8))
    assert len(list(hlo_cli.scan([tmp_path]))) == 2


def test_configurations_may_stand_in_a_table_of_the_module() -> None:
    """Since 2026, an instruction of a proto may refer to a text that others have too; the id 0 is written."""
    texts = str(hlo_cli.load(str(FOLDER / "tpu.executable")))
    assert texts.count("backend_config={") == (FOLDER / "tpu.txt").read_text().count("backend_config={") > 1


# --- damage ---


@pytest.mark.parametrize("name", STORED)
def test_cut_and_changed_files_end_in_an_error(name: str) -> None:
    data = decompress(stored(name).read_bytes(), name)
    random = Random(name)
    for _ in range(60):
        damaged = bytearray(data[: random.randrange(len(data))])
        for _ in range(random.randrange(4)):
            damaged[random.randrange(len(damaged) or 1) : 1] = random.randbytes(1)
        with suppress(HloError):
            assert all(len(each.proto) <= 4 * len(data) for each in modules(bytes(damaged)))


def test_records_may_not_grow_beyond_the_limit() -> None:
    data = (FOLDER / "tpu.executable").read_bytes()
    with pytest.raises(HloError, match="records of more bytes than are read"):
        modules_in_executable(data, "m", limit=1000)


def test_what_is_no_executable_is_left_alone() -> None:
    """Protos of modules and snapshots have the same first field; a name in one may look like a message."""
    for path in sorted(FIXTURES.glob("**/*.pb")):
        assert modules(path.read_bytes()) == (), path
    name = b"mabcd"  # a field of four bytes
    module = field(1, name) + field(2, b"main")
    assert modules(field(1, field(1, module)) + field(2, b"")) == ()


def test_an_executable_without_hlo_says_so(tmp_path: Path) -> None:
    described = field(1, 3) + field(2, b"pjrt_ifrt")
    path = tmp_path / "e"
    path.write_bytes(varint(len(described)) + described + field(1, b"") + field(2, b"\x08\x01"))
    with pytest.raises(HloError, match="is an executable without HLO"):
        hlo_cli.load(str(path))


# --- Snappy ---


def test_snappy_copies_may_overlap_what_they_write() -> None:
    literal = bytes([(4 - 1) << 2]) + b"abcd"
    near = bytes([(7 - 4) << 2 | 1, 4])
    far = bytes([(9 - 1) << 2 | 2, 2, 0])
    farther = bytes([(3 - 1) << 2 | 3, 1, 0, 0, 0])
    text = b"abcd" + b"abcdabc" + b"bcbcbcbcb" + b"bbb"
    assert unsnappy(varint(len(text)) + literal + near + far + farther, len(text)) == text


def test_long_literals_tell_their_length_behind_the_tag() -> None:
    for size, tag in ((61, bytes([60 << 2, 60])), (300, bytes([61 << 2]) + (299).to_bytes(2, "little"))):
        text = os.urandom(size)
        assert unsnappy(varint(size) + tag + text, size) == text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05",
        b"\x04\x0c",
        b"\x04\x01\x01",
        b"\x04\x00a\x01\x05",
        b"\x04\xfc",
        b"\x01\x00ab",
        b"\x02\x00a\x01\x00",
    ],
)
def test_damaged_snappy_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        unsnappy(data, 4)


def test_random_bytes_behind_a_size_never_end_otherwise() -> None:
    random = Random(3)
    for _ in range(2000):
        size = random.randrange(200)
        data = varint(size) + random.randbytes(random.randrange(100))
        with suppress(WireError):
            assert len(unsnappy(data, size)) == size


def test_blocks_and_chunks_of_many_records_are_joined() -> None:
    """A block header stands every 64 KiB, also within a chunk."""
    records = [os.urandom(50_000) for _ in range(5)]
    sizes = b"".join(varint(len(record)) for record in records)
    chunk = b"\0" + varint(len(sizes)) + sizes + b"".join(records)
    header = bytes(8) + len(chunk).to_bytes(8, "little") + bytes(8) + b"r" + len(records).to_bytes(7, "little")
    body = header + sum(map(len, records)).to_bytes(8, "little") + chunk
    step = executables._BLOCK - executables._BLOCK_HEADER
    blocks = [bytes(executables._BLOCK_HEADER) + body[at : at + step] for at in range(0, len(body), step)]
    assert list(executables._records(b"".join(blocks), LIMIT)) == records


# --- fresh programs ---


_SERIALIZE = """
import base64, json, sys
import jax
from jax._src.interpreters import mlir
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir
texts, options = json.load(sys.stdin)
client = jax.devices("cpu")[0].client
found = []
for text in texts:
    settings = _jax.CompileOptions()
    settings.env_option_overrides = list(options.items())
    with mlir.make_ir_context():
        module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        given = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(module))
        program = client.compile_and_load(given, _jax.DeviceList(tuple(client.local_devices()[:1])), settings)
    printed = _hlo.HloPrintOptions()
    printed.print_large_constants = True
    text = program.hlo_modules()[0].to_string(printed)
    found.append((base64.b64encode(program.serialize()).decode(), text))
print(json.dumps(found))
"""


@pytest.mark.oracle
@pytest.mark.slow
def test_fresh_executables_have_the_modules_that_were_compiled() -> None:
    """Witness: `HloModule::ToString` of jaxlib for the very executable."""
    texts = [fusible_program(Random(seed)) for seed in range(12)]
    done = subprocess.run(
        [sys.executable, "-c", _SERIALIZE],
        input=json.dumps((texts, {"xla_backend_optimization_level": 0})),
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for number, (data, text) in enumerate(json.loads(done.stdout)):
        (found,) = modules(base64.b64decode(data))
        assert comparable(read_proto(found.proto, Source("m", ""))) == comparable(hlo_cli.parse_module(text)), number
