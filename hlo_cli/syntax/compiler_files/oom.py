"""Out-of-memory messages found in surrounding text: tracebacks, logs of many workers, prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hlo_cli.ir.compiler_files.out_of_memory import OutOfMemory
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError, Source, Span
from hlo_cli.syntax.compiler_files.byte_texts import byte_number
from hlo_cli.syntax.compiler_files.names import Places, Shapes, stretches
from hlo_cli.syntax.compiler_files.oom_allocations import allocations_of, place_in_label, single_allocation
from hlo_cli.syntax.compiler_files.oom_log_lines import LogText, without_prefixes
from hlo_cli.syntax.compiler_files.oom_messages import Head, heads
from hlo_cli.syntax.compiler_files.oom_tables import (
    allocator_limit,
    assignment_stats,
    chunk_groups,
    output_bytes,
    program_parts,
    temp_usage,
    usage_parts,
)

_CODE = re.compile(r"\b(E[0-9]{4}): \w+:\s*\Z")
_CODE_BEFORE: Final = 80


def parse_out_of_memory(source: Source, module: Module | None = None) -> tuple[OutOfMemory, ...]:
    """The messages in a text, in order and without duplicates; HloError if there is none.

    Instructions are resolved in a module if one is given.

    >>> text = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
    >>> text += "HLO temporaries (20.00G) exceeds available HBM (15.75G). HLO module: jit_f.\\n"
    >>> [message] = parse_out_of_memory(Source("error.txt", text))
    >>> message.space, message.code, message.module, message.exceeded_by_bytes
    ('hbm', 'E1000', 'jit_f', 4563402752)
    """
    log = without_prefixes(source.text)
    seen: dict[OutOfMemory, OutOfMemory] = {}
    for message in _messages(log, Places(module), Shapes()):
        seen.setdefault(replace(message, span=Span(0, 0)), message)
    if not seen:
        raise HloError(
            "no XLA out-of-memory message found",
            Span(0, 0),
            source=source,
            hint="paste the complete error, starting at RESOURCE_EXHAUSTED",
        )
    return tuple(seen.values())


def newest(messages: tuple[OutOfMemory, ...]) -> OutOfMemory:
    """The last of several messages, or the one before it if that has more detail on the same failure.

    >>> small = OutOfMemory("run", Span(9, 10), used_bytes=8)
    >>> large = OutOfMemory("run", Span(0, 5), used_bytes=8, usage=usage_parts("Total hbm usage >= 1G: reserved 4.0K"))
    >>> newest((large, small)) is large
    True
    """
    last = messages[-1]
    same = [message for message in messages if message.used_bytes == last.used_bytes]
    return max(same, key=lambda message: (len(message.allocations) + len(message.usage), message.span.start))


def _messages(log: LogText, places: Places, shapes: Shapes) -> Iterator[OutOfMemory]:
    found = {match: head for head, match in heads(log.text)}
    for match, end in stretches(list(found), len(log.text)):
        yield _message(log, found[match], match, end, places, shapes)


def _message(log: LogText, head: Head, match: re.Match[str], end: int, places: Places, shapes: Shapes) -> OutOfMemory:
    groups = match.groupdict()
    details = log.text[match.end() : end]
    used, limit, over = (_bytes(groups.get(name), head.unit) for name in ("used", "limit", "over"))
    if limit is None:
        limit = allocator_limit(details)
    elif over is None and used is not None:
        over = used - limit
    single = single_allocation(details.partition("\n")[0], used, places, shapes)
    label_place, _ = place_in_label(groups.get("label") or "", places)
    output, shared = output_bytes(details)
    code = _CODE.search(log.text, max(0, match.start() - _CODE_BEFORE), match.start())
    return OutOfMemory(
        head.stage,
        log.span(*match.span()),
        (groups.get("space") or head.space).lower(),
        head.target,
        used,
        limit,
        over,
        code[1] if code else "",
        groups.get("device") or "",
        groups.get("module") or "",
        label_place or (single.place if single else None),
        usage_parts(details),
        output,
        shared,
        program_parts(details),
        temp_usage(details),
        assignment_stats(details),
        chunk_groups(details),
        (single,) if single else tuple(allocations_of(details, places, shapes)),
    )


def _bytes(text: str | None, unit: int) -> int | None:
    return byte_number(text) * unit if text else None
