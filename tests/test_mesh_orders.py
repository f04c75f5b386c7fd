"""`hlo schedule --mesh-order`: the order of the axes of a mesh in which collectives take the least time."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from hlo_cli import chip_spec, parse_module
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate, read_throughputs
from hlo_cli.analysis.sharding.mesh_orders import MAX_AXES, mesh_orders
from hlo_cli.cli import main
from hlo_cli.ir.attributes.sharding import Mesh, MeshAxis
from hlo_cli.source import HloError

ADD = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
MODEL_GROUPS, DATA_GROUPS = "[2,8]<=[8,2]T(1,0)", "[8,2]<=[16]"
MESH = Mesh((MeshAxis("model", 8), MeshAxis("data", 2)))


def text_of(model_elements: int, data_elements: int) -> str:
    """Activations summed over `model`, gradients over `data`, on 16 devices with `model` as the first axis."""
    header = '#sdy.mesh<["model"=8, "data"=2]>'
    flags = "to_apply=sum, use_global_device_ids=true"
    return f"""HloModule m, num_partitions=16, is_scheduled=true, frontend_attributes={{xla.sdy.meshes={{mesh = {header}}}}}

{ADD}

ENTRY e_spmd {{
  p = f32[{model_elements}] parameter(0)
  q = f32[{data_elements}] parameter(1)
  r = f32[{model_elements}] all-reduce(p), replica_groups={MODEL_GROUPS}, channel_id=1, {flags}
  s = f32[{data_elements}] all-reduce(q), replica_groups={DATA_GROUPS}, channel_id=2, {flags}
  ROOT t = (f32[{model_elements}], f32[{data_elements}]) tuple(r, s)
}}
"""


def seconds_by_order(text: str, chip: ChipSpec) -> dict[tuple[str, ...], float]:
    return {order.axes: order.estimate.seconds for order in mesh_orders(parse_module(text), chip).orders}


def test_the_axis_with_most_bytes_gets_the_links() -> None:
    h100 = chip_spec("h100")
    tensor_parallel = mesh_orders(parse_module(text_of(1 << 26, 1 << 16)), h100)
    assert tensor_parallel.orders[0].axes == ("data", "model"), "eight neighbors with links"
    assert dict(tensor_parallel.orders[0].reaches) == {"data": "network", "model": "links"}
    data_parallel = mesh_orders(parse_module(text_of(1 << 12, 1 << 28)), h100)
    assert data_parallel.orders[0].axes == ("model", "data")
    assert data_parallel.orders[0].is_given
    for found in (tensor_parallel, data_parallel):
        for order in found.orders:
            assert 0 < order.estimate.low <= order.estimate.seconds <= order.estimate.high


def test_over_the_network_every_byte_takes_its_time() -> None:
    """Along an axis without links, an all-reduce of two devices sends all its bytes: 256 MiB at 50 GB/s."""
    times = seconds_by_order(text_of(1, 1 << 26), chip_spec("h100"))
    assert times["data", "model"] == pytest.approx((1 << 28) / 50e9, rel=0.02)


def test_in_one_domain_all_orders_are_equal() -> None:
    times = seconds_by_order(text_of(1 << 26, 1 << 20), chip_spec("gb200"))
    assert len(set(times.values())) == 1
    found = mesh_orders(parse_module(text_of(1 << 26, 1 << 20)), chip_spec("gb200"))
    assert found.orders[0].is_given, "no change without a gain"


@pytest.mark.parametrize("domain", [1, 2, 4, 8, 16])
def test_more_links_never_take_longer(domain: int) -> None:
    def of(devices: int) -> ChipSpec:
        text = f"[chip.h100]\ndomain = {devices}\nnetwork = 1e9\n"  # so slow that links always win
        return read_throughputs(text)["h100"]

    text = text_of(1 << 22, 1 << 24)
    if domain > 1:
        fewer, more = (seconds_by_order(text, of(each)) for each in (domain // 2, domain))
        assert min(more.values()) <= min(fewer.values()) * 1.0001
    assert set(seconds_by_order(text, of(domain))) == set(permutations(("model", "data")))


@pytest.mark.parametrize(
    ("chip", "mesh", "message"),
    [
        ("v5e", MESH, "how many devices the links connect"),
        ("mi350x", MESH, "how fast the network between hosts is"),
        ("h100", Mesh((MeshAxis("x", 16),)), "no mesh of two or more axes"),
        ("h100", Mesh(tuple(MeshAxis(name, 2) for name in "abcdefg")), f"at most {MAX_AXES}"),
    ],
)
def test_what_is_missing_is_an_error(chip: str, mesh: Mesh, message: str) -> None:
    partitions = 1
    for axis in mesh.axes:
        partitions *= axis.size
    module = parse_module(f"HloModule m, num_partitions={partitions}\nENTRY e_spmd {{ ROOT p = f32[] parameter(0) }}")
    with pytest.raises(HloError, match=r"mesh|unknown") as caught:
        mesh_orders(module, chip_spec(chip), mesh)
    assert message in str(caught.value)


def test_a_file_has_the_domain_and_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml, dump = tmp_path / "c.toml", tmp_path / "m.hlo"
    toml.write_text("[chip.mi350x]\nnetwork = 50e9\ndomain = 8\n")
    dump.write_text(text_of(1 << 26, 1 << 16))
    words = ("schedule", str(dump), "--mesh-order", "--chip-file", str(toml))
    assert main([*words, "--format", "json"], standalone=False) in (0, None)
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert (answer["best_order"], answer["domain_devices"], answer["network_bytes_per_second"]) == (
        "data,model",
        8,
        50e9,
    )
    assert main([*words, "--format", "screen"], standalone=False) in (0, None)
    out, err = capsys.readouterr()
    assert "with the axes in the order data, model, and" in " ".join(out.split())
    assert "links connect 8 devices of mi350x" in err
    assert main(["schedule", str(dump), "--mesh-order"], standalone=False) == 2
    assert "--mesh-order requires --chip" in capsys.readouterr().err


def test_other_rates_of_the_network_keep_the_chip() -> None:
    own = read_throughputs("[chip.h100]\nnetwork = 25e9\n")["h100"]
    assert own == chip_spec("h100")
    assert own.network == Rate(25e9, "the given file")
    with pytest.raises(HloError, match="for domain, found 0"):
        read_throughputs("[chip.h100]\ndomain = 0\n")
