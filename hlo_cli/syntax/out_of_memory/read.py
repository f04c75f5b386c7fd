"""Out-of-memory messages found in surrounding text: tracebacks, logs of many workers, prose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hlo_cli.ir.module import Module
from hlo_cli.ir.out_of_memory import OutOfMemory
from hlo_cli.source import Source
from hlo_cli.syntax.compiler_files.names import Places, Shapes
from hlo_cli.syntax.out_of_memory.building import message_of, with_tables_before
from hlo_cli.syntax.out_of_memory.extracts import extracts
from hlo_cli.syntax.out_of_memory.joins import join_messages
from hlo_cli.syntax.out_of_memory.log_lines import LogText, without_prefixes
from hlo_cli.syntax.out_of_memory.messages import FoundHead, found_heads, headless
from hlo_cli.syntax.out_of_memory.ranges import usage_text, with_usage
from hlo_cli.syntax.out_of_memory.refusals import refusal
from hlo_cli.syntax.out_of_memory.squeezed import squeeze
from hlo_cli.syntax.out_of_memory.tables import Details

_MOST_FAILURES: Final = 400
_BEFORE: Final = 200_000


def parse_out_of_memory(source: Source, module: Module | None = None) -> tuple[OutOfMemory, ...]:
    """The failures in a text, in order, each once with the number of its repetitions; HloError if there is none.

    Instructions are resolved in a module if one is given.

    >>> text = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
    >>> text += "HLO temporaries (20.00G) exceeds available HBM (15.75G). HLO module: jit_f.\\n"
    >>> [message] = parse_out_of_memory(Source("error.txt", text))
    >>> message.space, message.code, message.module, message.exceeded_by_bytes
    ('hbm', 'E1000', 'jit_f', 4563402752)
    """
    places, shapes = Places(module), Shapes()
    found = [
        message
        for start, end in extracts(source.text)
        for message in _messages(without_prefixes(source.text, start, end), places, shapes)
    ]
    if not found:
        raise refusal(source)
    return join_messages(found)


def newest(messages: Sequence[OutOfMemory]) -> OutOfMemory:
    """The last failure, or the one before it if that has more detail; warnings only if alone.

    >>> from hlo_cli.ir.out_of_memory import OomAllocation
    >>> from hlo_cli.source import Span
    >>> small = OutOfMemory("run", Span(9, 10), used_bytes=8)
    >>> large = OutOfMemory("run", Span(0, 5), used_bytes=8, allocations=(OomAllocation(8),))
    >>> newest((large, small)) is large
    True
    """
    failures = [message for message in messages if not message.is_warning] or list(messages)
    failures = [message for message in failures if message.is_xla] or failures
    detailed = [message for message in failures if message.allocations or message.usage or message.chunks]
    last = failures[-1] if failures[-1].kind != "device" or not detailed else detailed[-1]
    same = [message for message in failures if message.used_bytes == last.used_bytes]
    return max(same, key=lambda message: (len(message.allocations) + len(message.usage), message.span.start))


def _messages(log: LogText, places: Places, shapes: Shapes) -> Iterator[OutOfMemory]:
    squeezed = squeeze(log.text)
    heads = _without_stack_pairs(found_heads(squeezed) or headless(squeezed))
    if len(heads) > _MOST_FAILURES:
        heads = heads[: _MOST_FAILURES // 2] + heads[-_MOST_FAILURES // 2 :]
    before, is_first_tpu = 0, True
    for number, (found, stack_end) in enumerate(heads):
        after = heads[number + 1][0].start if number + 1 < len(heads) else len(squeezed.text)
        details = Details(squeezed, found.end, max(after, found.end))
        message = message_of(found, stack_end, details, places, shapes)
        if message.target != "tpu":
            message = with_tables_before(message, Details(squeezed, max(before, found.start - _BEFORE), found.start))
        else:
            message = with_usage(message, usage_text(details, shapes))
            if is_first_tpu and not message.spaces and not message.allocations:
                message = with_usage(message, usage_text(Details(squeezed, 0, found.start), shapes))
            is_first_tpu = False
        before = found.end
        span = log.span(squeezed.origin(found.start), squeezed.end_origin(found.end))
        yield replace(message, span=span)


def _without_stack_pairs(heads: Sequence[FoundHead]) -> list[tuple[FoundHead, int | None]]:
    """The heads; one on a stack with the sentence about its scoped allocation is one head.

    The offset is the end of the label of such a head, None for other heads.
    """
    merged: list[tuple[FoundHead, int | None]] = []
    skips = False
    for number, found in enumerate(heads):
        if skips:
            skips = False
            continue
        following = heads[number + 1] if number + 1 < len(heads) else None
        if "stack" in found.groups and following is not None and following.head.kind == "tpu-vmem-scoped":
            groups = found.groups | {name: following.groups[name] for name in following.groups}
            merged.append(
                (FoundHead(following.head, found.start, following.end, groups, found.ends, found.code), following.start)
            )
            skips = True
        else:
            merged.append((found, None))
    return merged
