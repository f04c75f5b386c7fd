"""Traces of TPUs with random nesting: events in any order that overlap in part, empty ones, kinds without names."""

from __future__ import annotations

from random import Random

from traces_writing import Event, PlaneWriter, Statistic, Unsigned, file_of

CATEGORIES = ("loop fusion", "while", "custom-call", "megacore fusion", "outfeed", "convolution fusion", "")


def random_tpu_file(seed: int) -> bytes:
    """One to three cores with operations of two programs, with or without steps."""
    random = Random(seed)
    count, with_steps = random.randint(1, 3), random.random() < 0.5
    facts = [_facts(random, symbol) for symbol in range(12)]
    planes = [_core(random, device, facts, with_steps) for device in range(count)]
    return file_of(planes)


def _facts(random: Random, symbol: int) -> tuple[str, str, dict[str, Statistic]]:
    """Name, display name, and statistics of a kind of events."""
    name = f"op.{symbol}"
    facts: dict[str, Statistic] = {
        "program_id": Unsigned(random.choice((5, 1 << 63))),
        "symbol_id": symbol,
        "hlo_category": random.choice(CATEGORIES),
        "flops": Unsigned(random.choice((0, random.randrange(1 << 30)))),
        "bytes_accessed": Unsigned(random.choice((0, random.randrange(1 << 20)))),
    }
    return f"%{name} = f32[{symbol}] add()", name if random.random() < 0.8 else "", facts


def _core(
    random: Random, device: int, facts: list[tuple[str, str, dict[str, Statistic]]], with_steps: bool
) -> PlaneWriter:
    plane = PlaneWriter(
        f"/device:TPU:{device}",
        device + 1,
        {
            "peak_teraflops_per_second": 100.0,
            "peak_hbm_bw_gigabytes_per_second": 1000.0,
            "device_type_string": "TPU v4",
        },
    )
    events = []
    for _ in range(random.randint(1, 120)):
        name, display, statistics = random.choice(facts)
        kind = plane.kind(name, display, statistics, key=str(sorted(statistics)))
        begin = 1000 * random.randrange(300) + random.choice((0, 0, random.randrange(1000)))
        length = random.choice((0, 1000 * random.randrange(5), 1000 * random.randrange(100), random.randrange(5000)))
        events.append(Event(kind, begin, length))
    if with_steps:
        plane.line("Steps", [Event(plane.kind(str(n)), 100_000 * n, 90_000) for n in range(4)], id=1, timestamp_ns=5)
    plane.line("XLA Ops", events, id=3, timestamp_ns=5)
    return plane
