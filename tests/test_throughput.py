"""What chips can do in a second: every chip has numbers, they agree with jax's own, and files may bring others."""

from __future__ import annotations

import pytest

from hlo_cli import HloError
from hlo_cli.analysis.hardware.chip_specs import chip_spec, read_throughputs
from hlo_cli.analysis.hardware.chips import find_chip, known_chips
from versions import IS_NEWER_XLA

_JAX_NAMES = {
    "v2": "TPU_V2",
    "v3": "TPU_V3",
    "v4-core": "TPU_V4",
    "v5e": "TPU_V5E",
    "v5p": "TPU_V5P",
    "v6e": "TPU_V6E",
    "7x": "TPU_7X",
}


def test_every_chip_has_throughputs_with_sources() -> None:
    for throughput in (chip.spec for chip in known_chips()):
        wires = [rate for rate in (throughput.memory, throughput.links, throughput.host) if rate is not None]
        assert all(rate.source.startswith("https://") and rate.per_second > 0 for rate in throughput.flops.values())
        assert all(rate.source.startswith("https://") for rate in wires)
        speeds = [rate.per_second for rate in wires]
        assert speeds == sorted(speeds, reverse=True), "memory is faster than links, and those than the way to the host"
        peak = throughput.flops_of("f16")
        assert peak is not None
        assert 25 < peak.per_second / throughput.memory.per_second < 700


@pytest.mark.oracle
def test_tpus_are_as_fast_as_jax_says() -> None:
    info = pytest.importorskip("jax._src.pallas.mosaic.tpu_info")
    if IS_NEWER_XLA:
        pytest.skip("JAX 0.11 has its numbers in another private function")
    for chip, name in _JAX_NAMES.items():
        cores = {"v5p": 2}.get(chip, 1)
        said = info._get_tpu_info_impl(info.ChipVersion[name], cores)
        throughput = chip_spec(chip)
        peaks = {"bf16": said.bf16_ops_per_second, "s8": said.int8_ops_per_second}
        peaks |= {"f8": said.fp8_ops_per_second, "s4": said.int4_ops_per_second}
        for kind, peak in peaks.items():
            if peak and kind in throughput.flops:
                assert throughput.flops[kind].per_second == pytest.approx(peak * cores, rel=0.15), (chip, kind)
        bandwidth = said.mem_bw_bytes_per_second * cores
        assert throughput.memory.per_second == pytest.approx(bandwidth, rel=0.15), chip


def test_a_file_goes_before_what_is_known() -> None:
    own = read_throughputs("[chip.v5e]\nmemory = 1e12\nlinks = 5\n[chip.mine]\nmemory = 1\nflops = { s8 = 7 }")
    assert chip_spec("TPU v5 lite", own).memory.per_second == 1e12
    assert chip_spec("v5e", own).flops == find_chip("v5e").spec.flops
    assert chip_spec("v5p", own) == find_chip("v5p").spec
    rate = chip_spec("mine", own).flops_of("u4")
    assert rate is not None
    assert (rate.per_second, rate.source) == (7, "the given file")


def test_a_file_may_have_the_cores_of_a_gpu() -> None:
    own = read_throughputs("[chip.mine]\nmemory = 1\ncores = 7\n[chip.h100]\nmemory = 1\n[chip.h200]\ncores = 3")
    assert [own[name].cores for name in ("mine", "h100", "h200")] == [7, find_chip("h100").spec.cores, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chip", "Expected ']'"),
        ("chip = 3", r"expected a \[chip.NAME\] table"),
        ("[chip]\nmine = 3", "must be a table"),
        ("[chip.mine]\nflops = {}", "missing memory"),
        ("[chip.mine]\nmemory = -1", "found -1"),
        ("[chip.mine]\nmemory = true", "found True"),
        ("[chip.mine]\nmemory = nan", "found nan"),
        ("[chip.mine]\nmemory = 1\nhost = 0.1", "for host, found 0.1"),
        ("[chip.mine]\nmemory = 1\nflops = 3", "flops must be a table"),
        ("[chip.mine]\nmemory = 1\ncores = 0.5", "from 1 to 1000000 for cores, found 0.5"),
        ("[chip.mine]\nmemory = 1\ncores = true", "for cores, found True"),
        ("[chip.mine]\nmemory = 1\nspeed = 3", "unknown key speed; expected"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(text: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        read_throughputs(text, "chips.toml")
