"""XLA's tables of measured times, as text: what is read, which chip they are of, and what they change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hlo_cli import chip_spec
from hlo_cli.analysis.hardware.chip_table import MatmulTimes
from hlo_cli.analysis.hardware.measured_times import matmul_time, matmul_times
from hlo_cli.cli import main
from hlo_cli.commands.options.chips import chosen_throughput
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.compiler_files.perf_tables import read_perf_tables

TYPES = "bf16xbf16->bf16"
GEMM = """HloModule m, is_scheduled=true
ENTRY e {
  a = bf16[4096,1024]{1,0} parameter(0)
  b = bf16[1024,4096]{1,0} parameter(1)
  ROOT d = bf16[4096,4096]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
ALL_TO_ALL = """HloModule m, is_scheduled=true, replica_count=8
ENTRY e {
  p = f32[65536]{0} parameter(0)
  ROOT r = f32[65536]{0} all-to-all(p), replica_groups=[1,8]<=[8], dimensions={0}
}
"""


DOT = """entries { key: "sm_90" value { entries {
  instruction { opcode: "dot" shape { element_type: BF16 dimensions: 3 dimensions: 256 dimensions: 8 }
    dot_dimension_numbers { lhs_contracting_dimensions: 2 rhs_contracting_dimensions: 1
      lhs_batch_dimensions: 0 rhs_batch_dimensions: 0 } }
  operands { shape { element_type: BF16 dimensions: 3 dimensions: 256 dimensions: 64 } }
  operands { shape { element_type: BF16 dimensions: 3 dimensions: 64 dimensions: 8 } }
  flops: 786432000000 } } }"""


def matmul_text(times: MatmulTimes, device: str = "gfx950", types: str = TYPES) -> str:
    """A table as `matmul_perf_table_gen` writes it."""
    rows = []
    for (b, m, n, k), seconds in times.items():
        flops = round(2 * b * m * n * k / seconds)
        rows.append(
            f"    entries {{\n      b: {b}\n      m: {m}\n      n: {n}\n      k: {k}\n"
            f'      flops {{ key: "{types}" value: {flops} }}\n    }}\n'
        )
    head = "# proto-message: xla.GemmPerfTable\n\n"
    return f'{head}entries {{\n  key: "{device}"\n  value {{\n{"".join(rows)}  }}\n}}\n'


def collective_text(rows: dict[int, float], opcode: str = "all-to-all", device: str = "gfx950") -> str:
    """A table as `collective_perf_table_gen` writes it: f32 elements of the result, and seconds, of one group of 8."""
    entries = []
    for elements, seconds in rows.items():
        measured = 4 * elements * (8 if opcode == "reduce-scatter" else 1)
        entries.append(f"""    entries {{
      instruction {{
        name: "_"
        opcode: "{opcode}"
        shape {{ element_type: F32 dimensions: {elements} layout {{ minor_to_major: 0 }} is_dynamic_dimension: false }}
        metadata {{}}
        iota_collective_device_list {{ num_replica_groups: 1 num_devices_per_group: 8 iota_reshape_dims: 8 }}
      }}
      fingerprint: "82724b215353fdf447c8f5867b927fe2"
      network_throughput_bytes_per_sec: {round(measured / seconds)}
    }}
""")
    return f'entries {{\n  key: "{device}"\n  value {{\n{"".join(entries)}  }}\n}}\n'


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, float]:
    assert main(["schedule", *words, "--format", "json"], standalone=False) in (0, None)
    found: dict[str, float] = json.loads(capsys.readouterr().out)["answer"]
    return found


def test_all_forms_are_read() -> None:
    matmuls = matmul_text({(1, 256, 256, 512): 4e-6, (2, 256, 256, 512): 5e-6})
    collectives = collective_text({256: 1e-5, 1 << 20: 1e-4}, "reduce-scatter")
    permute = """entries { key: "gfx950" value { entries {
      instruction { opcode: "collective-permute" shape { element_type: BF16 dimensions: 512 }
        source_target_pairs { target: 1 } source_target_pairs { source: 1 } }
      network_throughput_bytes_per_sec: 1024000000 } } }"""
    table = read_perf_tables(Source("t.txtpb", matmuls + collectives + permute))["gfx950"]
    assert table.matmuls[TYPES][2, 256, 256, 512] == pytest.approx(5e-6)
    assert table.collectives["reduce-scatter"][1, 8] == pytest.approx({8192: 1e-5, 32 << 20: 1e-4})
    assert table.collectives["collective-permute"][0, 2] == pytest.approx({1024: 1e-6})
    assert table.count == 5


def test_a_dot_in_a_profile_is_a_matmul() -> None:
    table = read_perf_tables(Source("t.txtpb", DOT))["sm_90"]
    assert table.matmuls == {TYPES: {(3, 256, 8, 64): pytest.approx(1e-6)}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entries { key: }", "expected a field of a protobuf message"),
        (matmul_text({(1, 256, 256, 512): 4e-6})[:-4], "a '}' is missing"),
        (matmul_text({(1, 256, 0, 512): 4e-6}).replace("value: 0", "value: 7"), "expected a positive number for n"),
        (matmul_text({(1, 2, 2, 2): 4e-6}).replace("bf16xbf16->bf16", "bf16"), "expected types such as"),
        (collective_text({256: 1e-5}).replace("F32", "F33"), "entry 1 of gfx950: unknown element type 'F33'"),
        (collective_text({256: 1e-5}).replace("num_devices_per_group: 8", ""), "for devices in a group, found 0"),
        (matmul_text({(1, 256, 256, 512): 4e-6}).replace("m: 256", "m: -256"), "a positive number for m, found -256"),
        (matmul_text({(1, 256, 256, 512): 4e-6}).replace("m: 256", "m: 0x100"), "a positive number for m, found 0x100"),
        (matmul_text({(1, 2, 2, 2): 4e-6}).replace("value: 4000000", "value: nan"), "flops of bf16xbf16->bf16, found nan"),
        (matmul_text({(1, 2, 2, 2): 4e-6}).replace("value: 4000000", "value: 1.5e12"), "found 1.5e12"),
        (matmul_text({(1, 256, 256, 512): 16777216.0}), "at 4 per second, it takes more than an hour"),
        (collective_text({256: 1e-5}).replace("dimensions: 256", "dimensions: " + "9" * 400), "dimensions, found 9999"),
        (collective_text({256: 1e-5}).replace("dimensions: 256", ("dimensions: " + "9" * 19 + " ") * 20), "the rate is wrong"),
        (collective_text({256: 1e-5}).replace("dimensions: 256", "dimensions: 2.5"), "number for dimensions, found 2.5"),
        (DOT.replace("dimensions: 3", "dimensions: " + "9" * 400), "whole number for dimensions, found 9999"),
        (DOT.replace("dimensions: 3", ("dimensions: " + "9" * 19 + " ") * 20), "the rate is wrong"),
        ("entries { key: \"gfx950\" value { entries { instruction { opcode: \"add\" } clock_cycles: 7 } } }", "no measured"),
    ],
)  # fmt: skip
def test_bad_tables_are_errors(text: str, message: str) -> None:
    with pytest.raises(HloError) as caught:
        read_perf_tables(Source("t.txtpb", text))
    assert message in str(caught.value)
    assert "t.txtpb" in str(caught.value)


def test_a_table_is_a_chip_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, gemm, exchange = tmp_path / "own.txtpb", tmp_path / "g.hlo", tmp_path / "a.hlo"
    shape = (1, 4096, 4096, 1024)
    table.write_text(matmul_text({shape: 123e-6}) + collective_text({65536: 777e-6}))
    gemm.write_text(GEMM)
    exchange.write_text(ALL_TO_ALL)
    for dump, seconds in ((gemm, 123e-6), (exchange, 777e-6)):
        for more in ((), ("--chip", "mi350x"), ("--chip", "mi355x")):
            found = answer(capsys, str(dump), "--chip-file", str(table), *more)
            assert found["execution_seconds"] == pytest.approx(seconds, rel=1e-3), (dump.name, more)


def test_tables_are_named_in_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.txtpb").write_text(matmul_text({(1, 4096, 4096, 1024): 123e-6}, "sm_89"))
    (tmp_path / "g.hlo").write_text(GEMM)
    (tmp_path / "chips.toml").write_text(
        '[chip.mine]\nflops = {bf16 = 9e14}\nmemory = 3e12\ncores = 100\ntables = "own.txtpb"\n'
    )
    found = answer(capsys, str(tmp_path / "g.hlo"), "--chip-file", str(tmp_path / "chips.toml"))
    assert found["execution_seconds"] == pytest.approx(123e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("tables = 7", "expected a file name, or a list of them, for tables, found 7"),
        ('tables = "none.txtpb"', "none.txtpb"),
        ('tables = "other.txtpb"', "no times of mi350x"),
    ],
)
def test_bad_names_of_tables_are_errors(toml: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "other.txtpb").write_text(matmul_text({(1, 256, 256, 512): 4e-6}, "sm_90"))
    (tmp_path / "chips.toml").write_text(f"[chip.mi350x]\n{toml}\n")
    with pytest.raises(HloError, match=r".") as caught:
        chosen_throughput("mi350x", str(tmp_path / "chips.toml"))
    assert message in str(caught.value)


def test_a_table_of_the_user_gives_what_that_of_the_package_does(tmp_path: Path) -> None:
    """Three quarters of MI350X's own times, read as a file, are within 15% on most of the others over 20 µs."""
    times = matmul_times()["mi350x", TYPES]
    kept = {shape: seconds for number, (shape, seconds) in enumerate(times.items()) if number % 4}
    (tmp_path / "own.txtpb").write_text(matmul_text(kept))
    spec = chosen_throughput("mi350x", str(tmp_path / "own.txtpb"))
    assert spec is not None
    near = number = inside = 0
    for shape, seconds in times.items():
        if shape not in kept and seconds >= 20e-6:
            found = matmul_time(shape, "bf16", spec, types=TYPES)
            assert found is not None
            number += 1
            near += abs(found.seconds / seconds - 1) < 0.15
            inside += found.low <= seconds <= found.high
    assert number >= 15
    assert near >= 0.85 * number
    assert 0.65 * number <= inside <= 0.95 * number, "its band is that of shapes left out of the file"


def test_other_chips_keep_their_times(tmp_path: Path) -> None:
    (tmp_path / "own.txtpb").write_text(matmul_text({(1, 256, 256, 512): 4e-6}, "sm_90"))
    with pytest.raises(HloError, match="no times of mi350x"):
        chosen_throughput("mi350x", str(tmp_path / "own.txtpb"))
    assert chosen_throughput("h100", str(tmp_path / "own.txtpb")) == chip_spec("h100"), "rates are those of the chip"


def test_tables_of_the_same_types_add_up(tmp_path: Path) -> None:
    """A TOML file names two tables; a shape in both has the time of the last one."""
    own, more, both = (1, 256, 256, 512), (1, 512, 512, 512), (1, 128, 128, 128)
    (tmp_path / "a.txtpb").write_text(matmul_text({own: 4e-6, both: 1e-6}) + collective_text({256: 1e-5}))
    (tmp_path / "b.txtpb").write_text(matmul_text({more: 5e-6, both: 2e-6}) + collective_text({512: 2e-5}))
    toml = tmp_path / "chips.toml"
    toml.write_text('[chip.mi350x]\nflops = { bf16 = 1e15 }\nmemory = 1e12\ntables = ["a.txtpb", "b.txtpb"]\n')
    chip = chosen_throughput("mi350x", str(toml))
    assert chip is not None
    assert chip.measured is not None
    assert chip.measured.matmuls[TYPES] == pytest.approx({own: 4e-6, more: 5e-6, both: 2e-6}, rel=1e-3)
    assert chip.measured.collectives["all-to-all"][1, 8] == pytest.approx({1024: 1e-5, 2048: 2e-5}, rel=1e-3)
