"""What a compiler warns of: arrays that are replicated to reshard them, and operations that are slow to compile."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import replace
from itertools import islice
from typing import Final

from hlo_cli.ir.compiler_messages import ReshardingWarning, SlowKind, SlowOperation
from hlo_cli.lazy_regex import lazy_regex

# --- replication to reshard ---
# Reader of the warnings about involuntary full rematerialization.
#
# Mirrors the messages of `PartitionedHlo::ReshardNoCache` of xla/service/spmd/spmd_partitioner.cc, from 2022 on.


_BROKEN: Final = r"\s*+"
_START: Final = lazy_regex(
    r"(?:(?<!\w)(\w++\.cc:[0-9]++)\]\s*+)?+(?:\[[Ss]\s*+[Pp]\s*+[Mm]\s*+[Dd]\s*+\]\s*+)?+[Ii]\s*+"
    + _BROKEN.join("nvoluntaryfullrematerialization")
)
_SHARDINGS: Final = lazy_regex(r"f\s*+r\s*+o\s*+m\s*+(?:sharding\s*+)?+(?=\{)")
_TO: Final = lazy_regex(r"\s*+(?:t\s*+o|->)\s*+(?:sharding\s*+)?+(?=\{)")
_OPERATION: Final = lazy_regex(r"for\s*+(?:HLO\s*+operation:?\s*+)?+(?=%)")
_END: Final = lazy_regex(
    r"(?:\.|(?<![\s.]))\s*+(?:You\s*+probably\s*+want|As\s*+the\s*+last\s*+resort|->\s*+SPMD|This\s*+issue\s*+will)"
)
_LIST_BREAK: Final = lazy_regex(
    r"(?<=[0-9])([,\])]) (?=[0-9])|(?<=[0-9]) ([,\])])|(?<=[\[(]) (?=[0-9])|(?<=\]) (?=<=|T\()|(?<=<=) (?=\[)"
)
_WITHOUT_SPACE: Final = lazy_regex(r"(?<=[0-9)\]])(?=last_tile_dims?=?)|(?<=maximal)(?=device)")
_WELL_FORMED: Final = lazy_regex(
    r"\{(?:devices=\[[0-9,]++\](?:<=\[[0-9,]++\](?:T\([0-9,]++\))?+|[0-9,]*+)"
    r"(?: last_tile_dim_replicate| last_tile_dims=\{[a-z, ]++\})?+|(?:maximal )?+[a-z]++(?:=[0-9]++)?+)\}"
)
_INSTRUCTION: Final = lazy_regex(r"%[\w.\-]++ = \(?+[a-z][a-z0-9]*+\[[0-9,<=]*+\]")
_BRACE: Final = re.compile(r"[{}]")
# Two shardings and an instruction with its metadata; lists of thousands of devices are long.
_LONGEST_RESHARDING: Final = 1 << 18
# A list of 10,000 device numbers fits; a brace that is never closed ends the search here.
_LONGEST_SHARDING: Final = 1 << 16


def parse_resharding_warnings(text: str) -> tuple[ReshardingWarning, ...]:
    """The warnings in a text, in order.

    >>> text = "[spmd] Involuntary full rematerialization. The compiler was not able to go from sharding "
    >>> parse_resharding_warnings(text + "{replicated} to {devices=[4]<=[4]} without")[0].after
    '{devices=[4]<=[4]}'
    """
    starts = list(_START.finditer(text))
    if not starts:
        return ()
    ends = [*(match.start() for match in starts[1:]), len(text)]
    breaks = [index for index, character in enumerate(text) if character == "\n"]
    warnings = list[ReshardingWarning]()
    for match, end in zip(starts, ends, strict=True):
        line = bisect(breaks, match.start()) + 1
        rest = text[match.end() : min(end, match.end() + _LONGEST_RESHARDING)]
        read = _warning(rest, match[1] or "", line)
        if "\n" in rest:  # a terminal also breaks words
            read = max(read, _warning(rest.replace("\n", ""), match[1] or "", line), key=_certainty)
        warnings.append(read)
    return tuple(warnings)


def _certainty(warning: ReshardingWarning) -> int:
    """How much of a warning could be read; the first of equals is taken."""
    shardings = [_WELL_FORMED.fullmatch(sharding) is not None for sharding in (warning.before, warning.after)]
    operation = _INSTRUCTION.match(warning.operation) is not None
    return 4 * sum(shardings) + 2 * operation + bool(warning.before) + bool(warning.after)


def _warning(text: str, raised_at: str, line: int) -> ReshardingWarning:
    before = after = ""
    at = 0
    if (match := _SHARDINGS.search(text)) is not None:
        at = _braced_end(text, match.end())
        before = _joined(text[match.end() : at])
        if (to := _TO.match(text, at)) is not None:
            at = _braced_end(text, to.end())
            after = _joined(text[to.end() : at])
    operation = _OPERATION.search(text, at)
    if operation is None:
        return ReshardingWarning(before, after, "", raised_at, line)
    end = _END.search(text, operation.end())
    return ReshardingWarning(before, after, text[operation.end() : end.start() if end else len(text)], raised_at, line)


def _braced_end(text: str, start: int) -> int:
    """The offset after the brace that closes the one at `start`, or of the end of the text."""
    depth = 0
    for match in _BRACE.finditer(text, start, start + _LONGEST_SHARDING):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    return min(len(text), start + _LONGEST_SHARDING)


def _joined(text: str) -> str:
    """The sharding in one line; breaks within its lists are none of its author."""
    one_line = _LIST_BREAK.sub(lambda match: match[1] or match[2] or "", " ".join(text.split()))
    return _WITHOUT_SPACE.sub(" ", one_line)


# --- slow operations ---
# Reader of the warnings about slow operations of the compiler.
#
# Mirrors `SlowOperationAlarm` of xla/service/slow_operation_alarm.cc, and its messages in
# xla/hlo/transforms/simplifiers/hlo_constant_folding.cc and xla/service/gpu/autotuning/conv_algorithm_picker.cc.


_MESSAGE: Final = lazy_regex(
    r"(?:operation took (?P<took>[0-9][0-9hmsu\u00b5n.]*+)\s*+(?:\*{3,}+\s*+)?)?+"
    r"(?:Constant folding an instruction is taking > (?P<folding>[0-9][0-9hms.]*+):"
    r"|\[(?:Compiling module )?(?P<module>[^\]\n]{0,1000}+)\] (?:Very s|S)low compile\?"
    r"|(?P<slow>Very slow compile\?)|(?P<debug>Slow compile\?)|Trying algorithm (?P<algorithm>[^\n]{0,80}?) for )"
    r"|operation took (?P<only>[0-9][0-9hmsu\u00b5n.]*+)"
)
_MODULE: Final = lazy_regex(r"[^\n]*+\n(?:[^\n]*+\n)?Compiling module (\S++)")
_NAME_ONLY: Final = lazy_regex(r"\s*+([\w.\-]++) \(displaying the full instruction")
_FOLDING_END: Final = lazy_regex(
    r"\n[ \t]*+\n[ \t]*+(?=[A-Z][a-z]*+[ ,'])|This isn't necessarily|XLA was built without|\Z"
)
_TRIAL_END: Final = lazy_regex(r" is taking a while|\n|\Z")
_TRIAL_START: Final = re.compile(r"(?:(conv|dot|gemm|fusion|custom-call)\s++(?=[%(\[a-z]))?+")
_BLANK: Final = re.compile(r"\s*+")
_MOST: Final = 200
"""A limit: warnings that are read; XLA itself writes fewer and fewer of them."""
_LONGEST_OPERATION: Final = 1 << 15  # an instruction with its backend_config; XLA prints large constants as {...}
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9}
_DURATION: Final = lazy_regex(r"([0-9]++(?:\.[0-9]++)?+)(h|ms|m|us|\u00b5s|ns|s)")


def parse_slow_operations(text: str) -> tuple[SlowOperation, ...]:
    """The warnings in a text, in order.

    >>> text = "Constant folding an instruction is taking > 2s:\\n\\n  %a = f32[] add(b, c)\\n"
    >>> [found] = parse_slow_operations(text)
    >>> found.kind, found.operation, found.threshold_seconds
    ('folding', '%a = f32[] add(b, c)', 2.0)
    >>> text = "The operation took 2m12.5s\\n***\\n[Compiling module jit_f] Very slow compile?"
    >>> [found] = parse_slow_operations(text)
    >>> found.kind, found.name, found.seconds
    ('compilation', 'jit_f', 132.5)
    """
    breaks = [match.start() for match in re.finditer(r"\n", text)]
    matches = list(islice(_MESSAGE.finditer(text), _MOST))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    found = list[SlowOperation]()
    for match, end in zip(matches, ends[-len(matches) :] if matches else (), strict=True):
        if match["only"] and found and found[-1].seconds is None:  # the log is cut after the time
            found[-1] = replace(found[-1], seconds=seconds_of(match["only"]))
            continue
        line = bisect(breaks, match.start()) + 1
        found.append(_operation(text, match, min(end, match.end() + _LONGEST_OPERATION), line))
    return tuple(found)


def seconds_of(text: str) -> float | None:
    """A duration as absl prints it, in seconds; None for other text.

    >>> seconds_of("1h2m3.5s"), seconds_of("15ms"), seconds_of("soon")
    (3723.5, 0.015, None)
    """
    durations = _DURATION.findall(text)
    return sum(float(number) * _UNITS[unit] for number, unit in durations) if durations else None


def _operation(text: str, match: re.Match[str], end: int, line: int) -> SlowOperation:
    """The operation of a message; the next one begins at `end`."""
    took = seconds_of(match["took"] or match["only"] or "")
    if match["folding"]:
        return _folding(text, match, end, took, line)
    if match["algorithm"]:
        start = match.end()
        start = (_TRIAL_START.match(text, start) or match).end()
        stop = _TRIAL_END.search(text, start, end)
        operation = text[start : stop.start() if stop else end].strip()
        return SlowOperation("autotuning", operation, "", None, took, match["algorithm"], line)
    is_debug = text.startswith("XLA was built without", match.end() + 2) or match["debug"] is not None
    kind: SlowKind = "unoptimized build" if is_debug else "compilation"
    below = _MODULE.match(text, match.end()) if match["slow"] else None
    name = (match["module"] or (below[1] if below else "")).removeprefix("Compiling module ")
    # `SlowCompilationAlarm` of xla/service/slow_operation_alarm.cc: 2 minutes, 10 s in debug builds
    return SlowOperation(kind, "", name, 10.0 if is_debug else 120.0, took, "", line)


def _folding(text: str, match: re.Match[str], end: int, took: float | None, line: int) -> SlowOperation:
    threshold = seconds_of(match["folding"])
    blank = _BLANK.match(text, match.end())
    start = blank.end() if blank else match.end()
    if (named := _NAME_ONLY.match(text, start)) is not None:
        return SlowOperation("folding", "", named[1], threshold, took, "", line)
    stop = _FOLDING_END.search(text, start, end)
    operation = text[start : stop.start() if stop else end].strip()
    return SlowOperation("folding", operation, "", threshold, took, "", line)
