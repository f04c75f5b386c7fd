"""The link of a transfer, and the bytes that cross it."""

from __future__ import annotations

import pytest

from dumps import compiled_dumps
from hlo_cli import parse_module
from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate, chip_spec
from hlo_cli.analysis.schedule.async_overlap import analyze_overlap, async_pairs, synchronous_pair
from hlo_cli.analysis.schedule.step_time import TransferTime, estimate_time, transfer_time
from hlo_cli.analysis.sharding.collectives import collective_time, collectives_of

CHIP = ChipSpec("chip", {}, Rate(1.0, ""), Rate(10.0, ""), Rate(100.0, ""))
BLIND = ChipSpec("blind", {}, Rate(1.0, ""))


def of_pair(text: str, moved: int = 120, chip: ChipSpec = CHIP) -> TransferTime:
    module = parse_module(f"HloModule m\nENTRY e {{ {text} }}")
    (pair,) = async_pairs(module).pairs
    return transfer_time(pair, moved, chip, module)


def of_collective(opcode: str, rest: str) -> TransferTime:
    module = parse_module(
        f"""HloModule m, replica_count=6
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{ p = f32[6] parameter(0) ROOT r = f32[6] {opcode}(p), {rest} }}"""
    )
    assert module.entry.root is not None
    return transfer_time(synchronous_pair(module.entry.root), 120, CHIP, module)


@pytest.mark.parametrize(
    ("opcode", "rest", "factor"),
    [
        ("all-gather", "dimensions={0}", 1),
        ("all-reduce", "to_apply=sum", 2),
        ("all-to-all", "dimensions={0}", 1),
        ("reduce-scatter", "dimensions={0}, to_apply=sum", 1),
    ],
)
@pytest.mark.parametrize("devices", [1, 2, 3, 6])
def test_rings(opcode: str, rest: str, factor: int, devices: int) -> None:
    """As in the scaling book: (n - 1)/n of the bytes leave each device, twice for an all-reduce."""
    numbers = list(range(6))
    groups = ",".join(f"{{{','.join(map(str, numbers[at : at + devices]))}}}" for at in range(0, 6, devices))
    found = of_collective(opcode, f"{rest}, replica_groups={{{groups}}}")
    assert (found.link, found.devices) == ("links", devices)
    assert found.link_bytes == pytest.approx(120 * factor * (devices - 1) / devices)
    assert found.seconds == pytest.approx(found.link_bytes / 10)


def test_a_group_that_is_not_listed_is_all_replicas() -> None:
    assert of_collective("all-gather", "dimensions={0}, replica_groups={}").devices == 6


def test_other_collectives_send_every_byte_once() -> None:
    found = of_collective("collective-permute", "source_target_pairs={{0,1},{1,0}}")
    assert found == TransferTime("links", 120.0, None, 12.0)


@pytest.mark.parametrize(
    ("given", "result", "seconds"), [("", ":S(1)", 120), (":S(1)", "", 120), ("", "", 240), (":S(1)", ":S(1)", 120)]
)
def test_copies_are_charged_for_reads_and_writes_in_main_memory(given: str, result: str, seconds: float) -> None:
    text = f"p = f32[30]{{0{given}}} parameter(0) s = (f32[30]{{0{result}}}, f32[30]{{0{given}}}, u32[]) copy-start(p)"
    found = of_pair(f"{text} ROOT d = f32[30]{{0{result}}} copy-done(s)")
    assert (found.link, found.seconds) == ("memory", seconds)


@pytest.mark.parametrize(("given", "result"), [("", ":S(5)"), (":S(5)", "")])
def test_transfers_with_host_memory_use_the_host_link(given: str, result: str) -> None:
    text = f"p = f32[30]{{0{given}}} parameter(0) s = (f32[30]{{0{result}}}, f32[30]{{0{given}}}, u32[]) copy-start(p)"
    assert of_pair(f"{text} ROOT d = f32[30]{{0{result}}} copy-done(s)") == TransferTime("host", 120.0, None, 1.2)


@pytest.mark.parametrize(("host", "link"), [("true", "host"), ("false", "links")])
def test_sends_use_the_host_link_or_the_interconnect(host: str, link: str) -> None:
    text = f"""p = f32[30] parameter(0) t = token[] after-all()
      s = (f32[30], u32[], token[]) send(p, t), channel_id=1, is_host_transfer={host}
      ROOT d = token[] send-done(s), channel_id=1, is_host_transfer={host}"""
    assert of_pair(text).link == link
    assert of_pair(text, chip=BLIND).seconds is None


def test_transfers_of_unknown_size_have_no_time() -> None:
    text = (
        "p = f32[?] parameter(0) s = (f32[?]{0:S(1)}, f32[?], u32[]) copy-start(p) ROOT d = f32[?]{0:S(1)} copy-done(s)"
    )
    assert of_pair(text).seconds is None


def test_operations_that_also_compute_have_no_time() -> None:
    text = """p = f32[30] parameter(0) s = ((f32[30]), f32[30], u32[]) negate-start(p)
      ROOT d = f32[30] negate-done(s)"""
    assert of_pair(text) == TransferTime(None, 120.0, None, None)


@pytest.mark.usefixtures("modules_kept")
@pytest.mark.parametrize("chip", ["v5e", "v5p", "h100"])
def test_schedules_estimate_collectives_as_communication_does(chip: str) -> None:
    """Every collective of every dump, async or not; the bounds that findings use stay below on equal bytes."""
    spec, compared = chip_spec(chip), 0
    for dump in compiled_dumps():
        module = parse_module(dump.text)
        overlap = analyze_overlap(module)
        found = estimate_time(overlap, spec)
        times = {
            each.pair.start: time.transfer.seconds
            for each, time in zip(overlap.intervals, found.intervals, strict=True)
        }
        times |= {each: transfer.seconds for each, transfer in found.synchronous.items()}
        for collective in collectives_of(module):
            expected = collective_time(collective, spec)
            if expected is not None and collective.caller in times:
                assert times[collective.caller] == expected.seconds, (str(dump), collective.caller.name)
                assert expected.seconds >= expected.at_least_seconds
                compared += 1
    assert compared > 50
