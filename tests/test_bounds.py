"""A bound is a bound: nothing that XLA measured is faster; and figures of chips are those that XLA compiles with.

The measurements are of the tables in xla/service/gpu/model (default_matmul_perf_table, default_collective_perf_table),
the figures of xla/backends/gpu/target_config/specs. `tests/data` has all extremes and some of the rest.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from statistics import median

import pytest

from hlo_cli import HloError, Instruction, parse_module
from hlo_cli.analysis.cost.cost_analysis import costs_of_kernels
from hlo_cli.analysis.hardware.chip_specs import chip_spec
from hlo_cli.analysis.hardware.chips import find_chip
from hlo_cli.analysis.schedule.async_overlap import synchronous_pair
from hlo_cli.analysis.schedule.kernel_times import compute_type, roofline
from hlo_cli.analysis.schedule.step_time import transfer_time

DATA = Path(__file__).parent / "data"
CHIPS = {"sm_90": "h100", "sm_100_B200": "b200", "sm_100_GB200": "gb200", "sm_103": "gb300"}
Row = dict[str, str]


def rows_of(name: str) -> list[Row]:
    path = DATA / name
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def root_of(text: str) -> Instruction:
    root = parse_module(text).entry.root
    assert root is not None
    return root


def bounds_of(row: Row) -> tuple[float, float]:
    """What was measured, over what the product takes at least and at its roofline."""
    batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
    root = root_of(
        f"r = {row['result']}[{batch},{m},{n}] dot({row['lhs']}[{batch},{m},{k}] a, {row['rhs']}[{batch},{k},{n}] b), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    )
    (cost,) = costs_of_kernels([root]).values()
    found = roofline(cost, chip_spec(CHIPS[row["device"]]), compute_type(root))
    seconds = 2 * batch * m * n * k / float(row["flop_per_s"])
    return seconds / max(found.at_least_seconds, 1e-12), seconds / found.seconds


def test_no_product_was_measured_faster_than_its_bound() -> None:
    for row in rows_of("measured_products.csv.gz"):
        assert bounds_of(row)[0] >= 0.9999, row


def test_long_products_are_near_their_rooflines() -> None:
    for device, kind in (("sm_90", "bf16"), ("sm_90", "f32"), ("sm_100_B200", "bf16"), ("sm_100_B200", "f32")):
        rows = [row for row in rows_of("measured_products.csv.gz") if (row["device"], row["lhs"]) == (device, kind)]
        far = sorted(bounds_of(row)[1] for row in rows)
        assert 1 < far[0] < 1.5, (device, kind)
        assert median(far[:10]) < 1.8, (device, kind)


def test_no_collective_was_measured_faster_than_its_bound() -> None:
    for row in rows_of("measured_collectives.csv.gz"):
        opcode, size = row["opcode"], int(row["result_bytes"])
        devices = int(row["devices_per_group"])
        moved = size * devices if opcode == "reduce-scatter" else size  # rates count all that is given
        group = "{{" + ",".join(map(str, range(devices))) + "}}"
        words = {
            "collective-permute": "source_target_pairs={{0,1},{1,0}}",
            "all-reduce": f"replica_groups={group}, to_apply=sum",
            "reduce-scatter": f"replica_groups={group}, to_apply=sum, dimensions={{0}}",
        }.get(opcode, f"replica_groups={group}, dimensions={{0}}")
        module = parse_module(
            f"""HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{ p = f32[{moved // 4}] parameter(0) ROOT r = f32[{moved // 4}] {opcode}(p), {words} }}"""
        )
        assert module.entry.root is not None
        chip = chip_spec(CHIPS[row["device"]])
        found = transfer_time(synchronous_pair(module.entry.root), moved, chip, module).seconds
        assert found is not None
        assert moved / float(row["network_bytes_per_s"]) >= found, row


@pytest.mark.parametrize(
    ("words", "chip", "microseconds"),
    [
        ("", "h100", 277.8),
        ("operand_precision={high,high}", "h100", 277.8),
        ("operand_precision={highest,highest}", "h100", 2054.4),
        ("operand_precision={default,highest}", "h100", 2054.4),
        ("algorithm=dot_tf32_tf32_f32", "h100", 277.8),
        ("algorithm=dot_tf32_tf32_f32_x3", "h100", 833.5),
        ("algorithm=dot_bf16_bf16_f32_x3", "h100", 416.7),
        ("algorithm=dot_bf16_bf16_f32_x9", "h100", 1250.1),
        ("algorithm=dot_f32_f32_f32", "h100", 2054.4),
        ("", "v100-16gb", 8754.1),
        ("", "v5e", 697.7),
        ("operand_precision={default,highest}", "v5e", 697.7),
        ("operand_precision={high,high}", "v5e", 3 * 697.7),
        ("operand_precision={highest,highest}", "v5e", 6 * 697.7),
        ("algorithm=dot_bf16_bf16_f32_x6", "v5e", 6 * 697.7),
    ],
)
def test_f32_products_take_what_their_precision_asks_for(words: str, chip: str, microseconds: float) -> None:
    text = "r = f32[4096,4096] dot(f32[4096,4096] a, f32[4096,4096] b), lhs_contracting_dims={1}, "
    root = root_of(f"{text}rhs_contracting_dims={{0}}" + (f", {words}" if words else ""))
    (cost,) = costs_of_kernels([root]).values()
    found = roofline(cost, chip_spec(chip), compute_type(root))
    assert found.at_least_seconds * 1e6 == pytest.approx(microseconds, rel=1e-3)


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ('["DEFAULT","DEFAULT"],"algorithm":"ALG_UNSET"', "tf32"),
        ('["HIGHEST","HIGHEST"],"algorithm":"ALG_UNSET"', "f32 highest"),
        ('["DEFAULT","DEFAULT"],"algorithm":"ALG_DOT_BF16_BF16_F32_X3"', "bf16 x3"),
    ],
)
def test_library_calls_say_their_precision_in_their_configuration(asked: str, kind: str) -> None:
    numbers = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    config = f'{{"gemm_backend_config":{{{numbers},"precision_config":{{"operand_precision":{asked}}}}}}}'
    text = 'r = (f32[8,8], s8[64]) custom-call(f32[8,8] a, f32[8,8] b), custom_call_target="__cublas$gemm", '
    assert compute_type(root_of(f"{text}backend_config={config}")) == kind


def test_of_two_types_the_faster_bounds_and_f64_is_none_of_six_bits() -> None:
    text = "r = f32[8,8] dot({} a, {} b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    assert compute_type(root_of(text.format("bf16[8,8]", "s8[8,8]"))) == "s8"
    assert compute_type(root_of(text.format("f32[8,8]", "bf16[8,8]"))) == "bf16"
    peak = chip_spec("b200").flops_of("f64")
    assert peak is not None
    assert peak.per_second == 37.22e12


each_target = pytest.mark.parametrize("row", rows_of("xla_target_config.csv"), ids=lambda row: row["chip"])


def found_as(row: Row) -> str:
    """The chip that the device's name stands for, and that of XLA's file too, unless several are called so."""
    by_device = find_chip(row["name"]).name
    if row["chip"] == "v100":
        with pytest.raises(HloError, match="ambiguous chip 'v100': v100-16gb or v100-32gb"):
            find_chip("v100")
    else:
        assert find_chip(row["chip"]).name == by_device
    return by_device


@each_target
def test_memories_are_those_that_xla_compiles_with(row: Row) -> None:
    chip = find_chip(found_as(row))
    limit = chip.limit()
    assert limit is not None
    assert limit.bytes == int(row["memory_bytes"])
    assert chip_spec(chip.name).memory.per_second == int(row["memory_bytes_per_s"])
    assert chip.spec.cores in (0, int(row["cores"])) or row["chip"] == "mi200"  # MI250 and MI250X have one file
    if row["chip"] != "mi350":  # whose vendor counts a third level of cache
        assert 0 <= chip.spec.cache_bytes - int(row["l2_bytes"]) < 1 << 20


@each_target
def test_peaks_are_at_least_those_that_xla_compiles_with(row: Row) -> None:
    name = found_as(row)
    peaks = {"f32": row["scalar_f32_flop_per_s"], "tf32": row["matrix_f32_flop_per_s"]}
    peaks |= {kind: row[f"matrix_{kind}_flop_per_s"] for kind in ("f16", "bf16", "f8e5m2", "s8")}
    # XLA's files give B300 and GB300 the units for f64 of B200, which their vendor says they do not have
    peaks |= {} if name in ("b300", "gb300") else {"f64": row["matrix_f64_flop_per_s"]}
    most = 1.28 if name == "a100-pcie-80gb" else 1.05
    for kind, peak in peaks.items():
        if peak:
            rate = chip_spec(name).flops_of(kind)
            assert rate is not None
            assert 0.998 <= rate.per_second / float(peak) <= most, kind


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("h100 pcie", "h100-pcie"),
        ("h100-sxm", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("mi355x", "mi355x"),
        ("MI250X", "mi250x"),
        ("GB200", "gb200"),
        ("nvidia_gb300", "gb300"),
        ("RTX PRO 6000", "rtx6000pro"),
    ],
)
def test_no_name_stands_for_another_chip(name: str, chip: str) -> None:
    assert find_chip(name).name == chip


@pytest.mark.parametrize("name", ["a100", "v100", "a100 pcie", "h100 nvl", "gh200", "mi300a", "mi300", "rtx 6000 ada"])
def test_names_of_several_or_of_unknown_chips_are_refused(name: str) -> None:
    with pytest.raises(HloError):
        find_chip(name)


def test_sources_are_those_of_vendors_and_compilers() -> None:
    pages = (
        "https://docs.cloud.google.com/",
        "https://docs.jax.dev/",
        "https://github.com/jax-ml/",
        "https://jax-ml.github.io/",
        "https://github.com/openxla/xla/",
        "https://www.nvidia.com/",
        "https://images.nvidia.com/",
        "https://www.amd.com/",
        "https://github.com/ROCm/",
        "https://www.intel.com/",
        "libtpu",
    )
    from hlo_cli.analysis.hardware.chips import known_chips

    for chip in known_chips():
        known = chip_spec(chip.name)
        wires = [rate for rate in (known.memory, known.links, known.host) if rate is not None]
        sources = [each.source for each in (*known.flops.values(), *wires)]
        sources += [each.source for each in chip.memories.values()]
        sources += [chip.usable.source] if chip.usable else []
        assert all(source.startswith(pages) for source in sources), chip.name
