"""What compilers report besides memory: errors with the violated rule, warnings, and decisions on fusions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hlo_cli.dataclass import dataclass

# --- errors ---
# An error of XLA or of a compiler next to it: the rule that is violated, and where it was raised.


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """What a kind of message means. `violated` is a template with the fields of the message; `fix` is advice.

    A clause of the template in double brackets, as in `{first}[[ in {node}]]`, is dropped where one of its fields is
    empty; what stands after `|` in it takes its place.

    `shapes` are the fields that hold shapes to compare, the first of which is the expected one. `is_program` tells that
    the program or its options are wrong, not the compiler; `is_about_hlo` that a dump shows more; `is_certain` that the
    words of the message are in no other text.

    >>> ErrorRule("reshape", "A reshape keeps the number of elements.", is_program=True).key
    'reshape'
    """

    key: str
    rule: str
    violated: str = ""
    fix: str = ""
    shapes: tuple[str, ...] = ()
    is_program: bool | None = None
    is_about_hlo: bool = True
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class CompilerError:
    """One error message. `fields` are the parts of the message that its rule names, `line` is that of the text.

    `status` is the code of absl, such as INTERNAL; `context` is that of the check and `failed_after` the last pass
    before it; `raised_at` is the line of XLA, `condition` the check that failed, and `user_line` the line of the
    user's program in a traceback. All are empty if they are not in the text.

    >>> CompilerError(None, "no such option", {}, 1, status="INVALID_ARGUMENT").status
    'INVALID_ARGUMENT'
    """

    rule: ErrorRule | None
    message: str
    fields: Mapping[str, str]
    line: int
    status: str = ""
    context: str = ""
    failed_after: str = ""
    raised_at: str = ""
    condition: str = ""
    user_line: str = ""


# --- warnings of the partitioner ---
# A warning of the SPMD partitioner that it replicates an array to reshard it.


@dataclass(frozen=True, slots=True)
class ReshardingWarning:
    """One warning: the two shardings and the instruction as texts, empty if they are not in the warning.

    `raised_at` is the line of XLA that wrote it, `line` that of the text.

    >>> ReshardingWarning("{devices=[2]<=[2]}", "{replicated}", "", "spmd_partitioner.cc:656", 1).before
    '{devices=[2]<=[2]}'
    """

    before: str
    after: str
    operation: str
    raised_at: str
    line: int


# --- slow operations of the compiler ---
# A warning of XLA that an operation of the compiler is slow.


SlowKind = Literal["folding", "compilation", "unoptimized build", "autotuning"]
"""Constant folding, a whole compilation, a compilation by a debug build of XLA, or a trial of an algorithm."""


@dataclass(frozen=True, slots=True)
class SlowOperation:
    """One warning: the instruction as text, or its name or that of the module; empty if they are not in the warning.

    `threshold_seconds` is the time after which XLA warns, `seconds` the time that the operation took in the end, None
    if it is not in the text. `line` is that of the text.

    >>> SlowOperation("folding", "%a = f32[2] add(%b, %c)", "", 1.0, None, "", 3).kind
    'folding'
    """

    kind: SlowKind
    operation: str
    name: str
    threshold_seconds: float | None
    seconds: float | None
    algorithm: str
    line: int


# --- decisions of priority fusion ---
# The decisions of XLA:GPU's priority fusion, in the order in which it made them.
#
# Mirrors xla/service/gpu/fusion_process_dump.proto.


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


# --- passes ---
# What `--xla_dump_module_metadata` says of each pass. Mirrors `HloPassMetadata` of xla/service/hlo.proto.


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass, or of a pipeline, in microseconds since 1970; `dumps` files were written after it.

    >>> PassRun("dce", "simplification", 3, 5).is_changed
    False
    """

    name: str
    pipeline: str
    begin_us: int
    end_us: int
    is_changed: bool = False
    dumps: int = 0


@dataclass(frozen=True, slots=True)
class PassRuns:
    """The passes of one compilation, in their order; `module_id` is XLA's number of the module."""

    module_id: int
    runs: tuple[PassRun, ...]
