"""Several messages of one failure joined to one: an allocator's and the runtime's, a wrapper's and the compiler's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Final

from hlo_cli.ir.out_of_memory import OOM_REQUESTS, OutOfMemory
from hlo_cli.source import Span

_ROUNDING: Final = 0.01
"""How far two prints of one size differ at most: the shorter has three digits, such as 1.01GiB."""
_ALLOCATORS: Final = ("gpu-allocator", "gpu-driver")
_NEAR: Final = 20


def join_messages(messages: Iterable[OutOfMemory]) -> tuple[OutOfMemory, ...]:
    """The failures of a text, each once: repetitions counted, and messages about the same request joined.

    >>> first = OutOfMemory("run", Span(0, 5), used_bytes=8, kind="device")
    >>> [joined] = join_messages((first, replace(first, span=Span(9, 14))))
    >>> joined.repetitions, joined.span
    (2, Span(start=0, end=5))
    """
    failures: list[OutOfMemory] = []
    places: dict[object, int] = {}
    for message in messages:
        key = _key(message)
        if (known := places.get(key)) is not None:
            failures[known] = replace(failures[known], repetitions=failures[known].repetitions + 1)
            continue
        for back in range(len(failures) - 1, max(len(failures) - _NEAR, 0) - 1, -1):
            if joined := _joined(failures[back], message):
                failures[back] = joined
                places[key] = back
                break
        else:
            places[key] = len(failures)
            failures.append(message)
    return tuple(failures)


def _key(message: OutOfMemory) -> object:
    """What repetitions of a message have in common; the device that reports it may differ."""
    return replace(message, span=Span(0, 0), device="", allocator=None, chunks=())


def _joined(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """One message for two about the same failure, None if they are about different ones."""
    if first.kind == "tpu-buffer" and second.kind.startswith("tpu-vmem") and first.used_bytes == second.used_bytes:
        return replace(second, device=first.device or second.device)
    if (
        first.kind in _ALLOCATORS
        and second.kind in (*OOM_REQUESTS, "tensorflow", "gpu-constant")
        and _is_same(first, second)
    ):
        return _with_allocator(second, first)
    if first.kind in _ALLOCATORS and second.kind in _ALLOCATORS and _is_same(first, second):
        return _with_allocator(first, second)
    if first.kind in OOM_REQUESTS and second.kind in OOM_REQUESTS and _is_same(first, second):
        return _with_details(first, second)
    if first.kind == second.kind and first.target == "tpu" and _figures(first) == _figures(second) != (None, None):
        return _with_details(first, second)
    if first.kind == second.kind and first.process is not None and second.process is not None:
        return _with_process(first, second)
    return None


def _figures(message: OutOfMemory) -> tuple[int | None, int | None]:
    return message.used_bytes, message.limit_bytes


def _is_same(first: OutOfMemory, second: OutOfMemory) -> bool:
    """Whether two requests have the same size, as far as sizes are known and not rounded."""
    if first.used_bytes is None or second.used_bytes is None:
        return first.kind in _ALLOCATORS and second.kind == "tensorflow"
    return abs(first.used_bytes - second.used_bytes) <= _ROUNDING * max(first.used_bytes, second.used_bytes, 1)


def _with_allocator(request: OutOfMemory, allocator: OutOfMemory) -> OutOfMemory:
    """A failed request with the statistics of the allocator that refused it."""
    has_limit = request.limit_bytes is not None
    return replace(
        request,
        span=min(request.span, allocator.span, key=lambda span: span.start),
        target="gpu",
        used_bytes=allocator.used_bytes if request.used_bytes is None else request.used_bytes,
        limit_bytes=request.limit_bytes if has_limit else allocator.limit_bytes,
        limit_meaning=request.limit_meaning if has_limit else allocator.limit_meaning,
        exceeded_by_bytes=request.exceeded_by_bytes if has_limit else allocator.exceeded_by_bytes,
        kind="gpu-allocator" if request.kind == "device" else request.kind,
        device=request.device or allocator.device,
        chunks=request.chunks or allocator.chunks,
        free_bytes=allocator.free_bytes if request.free_bytes is None else request.free_bytes,
        allocator=request.allocator or allocator.allocator,
    )


def _with_details(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """Two reports of one request; None if both have details and they differ."""
    if second.allocations and first.allocations and second.allocations != first.allocations:
        return None
    if first.cause is not None and second.cause is not None and first.cause != second.cause:
        return None
    whole, other = (second, first) if second.allocations or second.stats else (first, second)
    missing = {
        field.name: getattr(other, field.name)
        for field in fields(OutOfMemory)
        if getattr(whole, field.name) in (None, "", ())
    }
    kind = whole.kind if whole.kind != "device" else other.kind
    span = min(first.span, second.span, key=lambda span: span.start)
    repetitions = first.repetitions + second.repetitions
    if bool(first.code) != bool(second.code):
        repetitions = max(first.repetitions, second.repetitions)
    return replace(whole, **missing, kind=kind, span=span, repetitions=repetitions)


def _with_process(first: OutOfMemory, second: OutOfMemory) -> OutOfMemory | None:
    """Two lines of the kernel about one process; None if the processes differ."""
    one, two = first.process, second.process
    if one is None or two is None or one.pid != two.pid or one.pid is None:
        return None
    process = replace(
        one,
        name=one.name or two.name,
        virtual_bytes=two.virtual_bytes if one.virtual_bytes is None else one.virtual_bytes,
        resident_bytes=two.resident_bytes if one.resident_bytes is None else one.resident_bytes,
        anonymous_bytes=two.anonymous_bytes if one.anonymous_bytes is None else one.anonymous_bytes,
        group=one.group or two.group,
        reason=one.reason or two.reason,
    )
    used = first.used_bytes if first.used_bytes is not None else second.used_bytes
    limit = first.limit_bytes if first.limit_bytes is not None else second.limit_bytes
    meaning = first.limit_meaning or second.limit_meaning
    return replace(first, process=process, used_bytes=used, limit_bytes=limit, limit_meaning=meaning)
