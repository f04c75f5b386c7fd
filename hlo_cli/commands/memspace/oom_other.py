"""The first sentence on a message that is not XLA's: who reports it, and what ran out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hlo_cli.analysis.out_of_memory.advice import free_bytes
from hlo_cli.commands.memspace.oom_names import kernel_name, memory_name
from hlo_cli.ir.out_of_memory import OomKind, OutOfMemory
from hlo_cli.report.numbers import format_bytes

_NOT_XLA: Final = "Not an XLA message"
_HOST: Final[frozenset[OomKind]] = frozenset(("linux-oom-killer", "kubernetes", "slurm", "ray", "process"))
_MEMCG: Final = "CONSTRAINT_MEMCG"


def is_host_only(message: OutOfMemory) -> bool:
    """Whether host memory ran out, and not that of a device.

    >>> from hlo_cli.source import Span
    >>> is_host_only(OutOfMemory("run", Span(0, 0), kind="slurm")), is_host_only(OutOfMemory("run", Span(0, 0)))
    (True, False)
    """
    return message.kind in _HOST or message.space == "host" or message.kind == "cpu"


def answer_of_other(message: OutOfMemory) -> str:
    """One sentence with the figures that the message has.

    >>> from hlo_cli.ir.out_of_memory import OomProcess
    >>> from hlo_cli.source import Span
    >>> process = OomProcess("python3", 12, resident_bytes=3 << 30)
    >>> answer_of_other(OutOfMemory("run", Span(0, 0), kind="linux-oom-killer", process=process))
    'Not an XLA message: Linux killed python3 (pid 12, 3 GiB) because host memory ran out'
    """
    return f"{_NOT_XLA}: {_ANSWERS.get(message.kind, _allocation)(message)}"


def _linux(message: OutOfMemory) -> str:
    is_group = message.process is not None and message.process.reason == _MEMCG
    reason = "its control group reached its limit of host memory" if is_group else "host memory ran out"
    return f"Linux killed {_victim(message, 'a process')} because {reason}"


def _kubernetes(message: OutOfMemory) -> str:
    limit = f" ({format_bytes(message.limit_bytes)})" if message.limit_bytes is not None else ""
    return f"Kubernetes killed {_victim(message, 'a container')} because it reached its limit of host memory{limit}"


def _slurm(message: OutOfMemory) -> str:
    group = message.process.group if message.process is not None else ""
    job = f"job step {group}" if group else "the job"
    return f"Slurm killed {_victim(message, 'a process')} because {job} reached its limit of host memory"


def _ray(message: OutOfMemory) -> str:
    victim = _victim(message, "a task or actor")
    if message.used_bytes is None:
        return f"Ray killed {victim} because its node ran low on host memory"
    of = f" of {format_bytes(message.limit_bytes)}" if message.limit_bytes is not None else ""
    return f"Ray killed {victim} because its node used {format_bytes(message.used_bytes)}{of} of host memory"


def _process(message: OutOfMemory) -> str:
    reason = message.process.reason if message.process is not None else ""
    requested = f" of {format_bytes(message.used_bytes)}" if message.used_bytes is not None else ""
    return f"an allocation{requested} of host memory failed" + (f" ({reason})" if reason else "")


def _allocation(message: OutOfMemory) -> str:
    """A request of another framework."""
    framework = "PyTorch" if message.kind == "pytorch" else "TensorFlow"
    name = kernel_name(message.failed) if message.failed is not None else ""
    who = f"{name} of {framework}" if name and not name.startswith("[") else framework
    memory = memory_name(message)
    if message.used_bytes is not None:
        words = f"{who} requested {format_bytes(message.used_bytes)} of {memory}"
    else:
        words = f"{who} ran out of {memory}"
    free, limit = free_bytes(message), message.limit_bytes
    total = message.allocator.limit_bytes if message.allocator is not None else None
    if free is not None:
        of = f" of {format_bytes(total)}" if total else ""
        is_short = message.used_bytes is not None and free < message.used_bytes
        return f"{words}{', but only' if is_short else ';'} {format_bytes(free)}{of} is free"
    return words + (f" (limit {format_bytes(limit)})" if limit is not None else "")


def _victim(message: OutOfMemory, unnamed: str) -> str:
    process = message.process
    if process is None:
        return unnamed
    facts = [f"pid {process.pid}"] if process.pid is not None else []
    facts += [format_bytes(process.resident_bytes)] if process.resident_bytes is not None else []
    facts += [f"exit code {process.exit_code}"] if process.exit_code is not None else []
    return (process.name or unnamed) + (f" ({', '.join(facts)})" if facts else "")


_ANSWERS: Final[dict[OomKind, Callable[[OutOfMemory], str]]] = {
    "linux-oom-killer": _linux,
    "kubernetes": _kubernetes,
    "slurm": _slurm,
    "ray": _ray,
    "process": _process,
}
