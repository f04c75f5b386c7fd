"""The decisions of XLA:GPU's priority fusion, in the order in which it made them.

Mirrors xla/service/gpu/fusion_process_dump.proto.
"""

from __future__ import annotations

from hlo_cli.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FusedStep:
    """A producer was fused into one of its consumers; `fusion` is the name of the result, often the consumer's."""

    fusion: str
    producer: str
    consumer: str


@dataclass(frozen=True, slots=True)
class PriorityStep:
    """XLA's estimates for a producer and its consumers, fused and as separate kernels, in microseconds.

    After a fusion, an update of a producer that is still in the queue has the differences to the times before.
    """

    producer: str
    consumers: tuple[str, ...]
    fused_us: float
    unfused_us: float


@dataclass(frozen=True, slots=True)
class IneligibleStep:
    """A producer cannot be fused into all of its consumers, for the reason that XLA gives."""

    producer: str
    reason: str


FusionStep = FusedStep | PriorityStep | IneligibleStep


@dataclass(frozen=True, slots=True)
class FusionProcess:
    """The steps of the pass, the device it estimated for, and the text of the module before it, if they are known.

    The device has a name, the bandwidth of its memory in bytes per second, and a number of cores, 0 if unknown.

    `is_truncated` if the text ends within a step, which is left out.
    """

    steps: tuple[FusionStep, ...]
    device: str = ""
    memory_bandwidth: int = 0
    core_count: int = 0
    module_text: str = ""
    is_truncated: bool = False
