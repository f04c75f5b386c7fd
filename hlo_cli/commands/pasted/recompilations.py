"""Why did JAX compile a function again, what did it cost, and what stops it?

The messages of `jax_log_compiles` and `jax_explain_cache_misses`, in jax/_src/interpreters/partial_eval.py (`explain`),
pjit.py, interpreters/pxla.py, compiler.py, and compilation_cache.py. A cache miss names the argument and its types
now and in the closest earlier call; without that message, the types of compilations of one function are compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

from hlo_cli.commands.modules.recompilations import Cause, Change, Function, causes_of, changes_between, classified
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.source import HloError

# --- what the log says ---


_FINISHED: Final = lazy_regex(
    r"Finished (?P<stage>tracing(?: \+ transforming)?|jaxpr to MLIR module conversion|XLA compilation)(?: of)? "
    r"(?P<name>\S+)(?: for \w+)? in (?P<seconds>\d{1,9}(?:\.\d{1,18})?(?:e-?\d{1,2})?) sec"
)
_STAGES: Final = {"tracing": "tracing", "jaxpr": "lowering", "XLA": "XLA"}
_MISS: Final = lazy_regex(
    r"TRACING CACHE MISS at (?P<place>[^\s(]+)(?: \((?P<caller>[^()\n]+)\))?"
    r"(?: costing (?P<cost>\d{1,9}(?:\.\d{1,9})?) (?P<unit>m?s)\b)?"
)
_DEFINED: Final = lazy_regex(
    r"^\s*(?:for )?(?P<name>\S+)(?: id=\d+)? defined at (?P<file>[^\s:]+(?::\d+)?)|^\s*(?P<alone>\S+) id=\d+\s*$",
    re.MULTILINE,
)
_COMPILING: Final = lazy_regex(r"Compiling (?P<name>\S+) with global shapes and types (?P<types>[^\n]*)")
_TYPE: Final = lazy_regex(r"ShapedArray\((?P<type>\w+\[[^\]\n]*\](?:, ?weak_type=True)?)[^()]*\)")
_STORED: Final = lazy_regex(r"(?P<miss>COMPILATION CACHE MISS|compilation cache hit) for '(?P<name>[^'\n]+)'")
_NOT_STORED: Final = lazy_regex(
    r"Not writing persistent cache entry[^\n]*?(?P<why>because it took|since its size|host )"
)
_SEEN: Final = lazy_regex(r"at (?P<argument>[^\s,]+),? seen (?P<before>\S+?),? but now given (?P<now>[^\s;]+)")


def functions_in(text: str) -> dict[str, Function]:
    """What a log says on each function, in its order.

    >>> found = functions_in("Finished XLA compilation of jit(step) in 1.5 sec")
    >>> found["step"].compiled, found["step"].seconds
    (1, {'XLA': 1.5})
    """
    functions: dict[str, Function] = {}

    def function(name: str) -> Function:
        return functions.setdefault(name, Function(name))

    costs: dict[str, float] = {}
    starts = [*(match for match in _MISS.finditer(text)), None]
    for match, following in pairwise(starts):
        assert match is not None
        block = text[match.end() : following.start() if following else len(text)]
        name, place, changes = _miss(block, match["caller"] or "a function")
        found = function(name)
        found.traced += 1
        found.place = found.place or place
        found.called_at = match["place"].rstrip(":")
        if match["cost"]:
            seconds = float(match["cost"]) * (0.001 if match["unit"] == "ms" else 1)
            costs[name] = costs.get(name, 0.0) + seconds
        found.changes += changes
    for match in _COMPILING.finditer(text):
        function(_bare(match["name"])).types.append(tuple(each["type"] for each in _TYPE.finditer(match["types"])))
    # a terminal may have wrapped the lines
    for match in _FINISHED.finditer(" ".join(text.split())):
        found, stage = function(_bare(match["name"])), _STAGES[match["stage"].split(" ")[0]]
        found.seconds[stage] = found.seconds.get(stage, 0.0) + float(match["seconds"])
        found.compiled += stage == "XLA"
    for name, seconds in costs.items():
        functions[name].seconds.setdefault("tracing", seconds)
    for found in functions.values():
        found.compiled = max(found.compiled, len(found.types))
        if not found.changes:
            found.changes += changes_between(found.types)
    return functions


def _bare(name: str) -> str:
    """The name of a function without `jit(…)`, with which two of three messages print it."""
    return name.removeprefix("jit(").removesuffix(")") if name.startswith("jit(") else name


def _miss(block: str, caller: str) -> tuple[str, str, list[Change]]:
    """The function of a cache miss, where it is defined, and what changed."""
    defined = _DEFINED.search(block)
    name = caller if defined is None else defined["name"] or defined["alone"]
    place = defined["file"] or "" if defined else ""
    changes = [change for line in block.split("\n") if (change := _change(line.strip())) is not None]
    seen = (match.group("argument", "now", "before") for match in _SEEN.finditer(block))
    changes += [classified(argument, now.rstrip(",."), before.rstrip(",.")) for argument, now, before in seen]
    if not changes:
        if "never seen function" in block:
            # the first time is no recompilation
            again = "another function defined on the same line" in block
            changes = [Change("new function")] if again else []
        elif "Debug info doesn't match" in block:
            changes = [Change("debug info")]
        elif "Tracing context doesn't match" in block:
            changes = [Change("context")]
        else:
            changes = [Change("unknown")]
    return name, place, changes


def _change(line: str) -> Change | None:
    """The change in a line such as `* at x, now f32[5] and before f32[4]`."""
    if not line.startswith("* "):
        return None
    what, found, values = line.removeprefix("* ").partition(" now ")
    now, both, before = values.partition(" and before ")
    if not (found and both):
        return None
    before = before.partition(", so ")[0].partition("https://")[0].strip()
    if " differs" in what:
        return Change("context", what.partition(" differs")[0], now, before)
    argument = what.removeprefix("at ").rstrip(", ")
    return classified(_argument(argument), now, before)


def _argument(path: str) -> str:
    """An argument as the caller writes it, of a path in the pair of arguments and keyword arguments.

    >>> _argument("input path [0][1]['w']"), _argument("input path [1]['mode']"), _argument("batch")
    ("argument 1['w']", 'mode', 'batch')
    """
    path = path.removeprefix("input path ")
    kind, rest = path[:3], path[3:]
    if kind == "[0]" and rest.startswith("["):
        number, _, inner = rest[1:].partition("]")
        return f"argument {number}{inner}"
    if kind == "[1]" and rest.startswith("['"):
        name, _, inner = rest[2:].partition("']")
        return name + inner
    return path


# --- the report ---


_CAUSES: tuple[Column[Cause], ...] = (
    Column("function", "function", "name", role="name", of=lambda cause: cause.function.name),
    Column("compilations", "compiled", "count", of=lambda cause: cause.function.times),
    Column("seconds", "time", "seconds", of=lambda cause: cause.function.total_seconds or None),
    Column("reason", "reason", of=lambda cause: cause.reason),
    Column("argument", "argument", of=lambda cause: cause.argument or None),
    Column("values", "values", rank=5, of=lambda cause: ", ".join(cause.values) or None),
    Column("times", "times", "count", person=False, of=lambda cause: cause.times),
    Column("source", "defined at", rank=2, of=lambda cause: cause.function.place or None),
)
_TIMES: tuple[Column[float, str, str], ...] = (
    Column("seconds", "time", "seconds", of=lambda seconds, stage, function: seconds),
    Column("stage", "stage", of=lambda seconds, stage, function: stage),
    Column("function", "function", "name", of=lambda seconds, stage, function: function),
)


def report_of(pasted: PastedText) -> Report:
    """What was compiled, how often, why again, and what it cost; HloError if the text has none of JAX's messages."""
    functions = functions_in(pasted.text)
    stored = Counter("misses" if match["miss"][0] == "C" else "hits" for match in _STORED.finditer(pasted.text))
    if not functions and not stored:
        raise HloError(f"{pasted.name} has no message of its kind", hint="paste the complete message")
    causes = causes_of(functions.values())
    total = sum(each.total_seconds for each in functions.values())
    times = sorted(
        ((seconds, stage, each.name) for each in functions.values() for stage, seconds in each.seconds.items()),
        reverse=True,
    )
    tables = [
        *([Table("recompilations", _CAUSES, rows_from(_CAUSES, causes), noun="reasons")] if causes else []),
        *([Table("compile_times", _TIMES, rows_from_tuples(_TIMES, times), noun="stages")] if times else []),
    ]
    return text_report(
        pasted,
        _answer(functions, causes, total, stored, pasted.text),
        means=tuple(_means(functions, causes, stored)),
        tables=tables,
        advice=tuple(
            dict.fromkeys((*(each.advice for each in causes[:_MAX_ADVICE]), *_on_cache(pasted.text, stored, causes)))
        ),
        numbers={
            "functions": len(functions),
            "compilations": sum(each.compiled for each in functions.values()),
            "misses": sum(each.traced for each in functions.values()),
            "seconds": total,
            "cache_hits": stored["hits"],
            "cache_misses": stored["misses"],
        },
    )


_MAX_ADVICE: Final = 3  # those that cost most; the table has all


def _answer(
    functions: Mapping[str, Function], causes: Sequence[Cause], total: float, stored: Counter[str], text: str
) -> str:
    if causes:
        worst = causes[0]
        name, function = worst.function.name, worst.function
        if not function.compiled and len(function.changes) == 1 and worst.argument:
            change = function.changes[0]
            at = f" at {function.called_at}" if function.called_at else ""
            return f"{name} was traced again{at}: {worst.argument} is {change.now}, before it was {change.before}"
        took = f" ({format_seconds(function.total_seconds)})" if function.total_seconds else ""
        verb = "compiled" if function.compiled else "traced again"
        # the log may begin after the first time
        count = f"{function.times:,} times" if function.times > 1 else "once more" if function.compiled else "once"
        others = len({each.function.name for each in causes}) - 1
        more = f"; {format_count(others, 'more functions')} compiled again" if others else ""
        return f"{name} was {verb} {count}{took}: {worst.words}{more}"
    if total:
        stages: dict[str, float] = {}
        for each in functions.values():
            for stage, seconds in each.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
        longest = max(functions.values(), key=lambda each: each.total_seconds)
        listed = ", ".join(f"{stage} {format_seconds(seconds)}" for stage, seconds in stages.items())
        times = f", compiled {longest.compiled:,} times" if longest.compiled > 1 else ""
        count = format_count(sum(each.total_seconds > 0 for each in functions.values()), "functions")
        return (
            f"Compiling {count} took {format_seconds(total)} ({listed}); "
            f"the longest is {longest.name} ({format_seconds(longest.total_seconds)}{times})"
        )
    if functions:
        first = next(iter(functions.values()))
        return f"{format_count(len(functions), 'functions')} compiled for the first time, first {first.name}"
    missing = dict.fromkeys(match["name"] for match in _STORED.finditer(text) if match["miss"][0] == "C")
    listed = f": {', '.join(islice(missing, 3))}{' …' if len(missing) > 3 else ''} compiled" if missing else ""
    return f"The persistent cache had {stored['hits']:,} of {format_count(stored.total(), 'programs')}{listed}"


def _means(functions: Mapping[str, Function], causes: Sequence[Cause], stored: Counter[str]) -> Iterator[str]:
    if causes:
        yield "JAX compiles a function again for each new combination of shapes, types, and static arguments."
    if any(each.seconds.get("tracing") for each in functions.values()):
        yield "Times of functions inside of a jitted one are part of its tracing time too."
    if stored and (functions or stored["misses"]):
        yield f"Persistent cache: {format_count(stored['hits'], 'hits')}, {format_count(stored['misses'], 'misses')}."


def _advice(causes: Sequence[Cause]) -> Iterator[str]:
    """What to do about the function that cost most."""
    return (each.advice for each in causes[:_MAX_ADVICE] if each.function is causes[0].function)


def _on_cache(text: str, stored: Counter[str], causes: Sequence[Cause]) -> Iterator[str]:
    """What to do about the persistent cache."""
    reasons = {match["why"] for match in _NOT_STORED.finditer(text)}
    if "because it took" in reasons:
        yield "To store programs that compile quickly, set jax_persistent_cache_min_compile_time_secs to 0."
    if "since its size" in reasons:
        yield "To store small programs, set jax_persistent_cache_min_entry_size_bytes to 0."
    if "host " in reasons:
        yield "Programs with host callbacks, such as jax.debug.print, are not stored."
    if stored["misses"]:
        yield "To see why a key differs, run `hlo diff` on two entries or folders of the cache."
    elif not stored and not causes:
        yield "A persistent cache (jax_compilation_cache_dir) keeps the result of XLA's part."
