"""The annotations of XLA in NVTX ranges: which module and instruction a range is for.

Mirrors xla/backends/gpu/runtime/annotation.cc. A range of a module is `TSL:XlaModule:#hlo_module=jit_f,program_id=7#`,
one of an instruction in it `TSL:Thunk:#name=NAME,hlo_op=dot.1#`; not all exports have the `TSL:`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from hlo_cli.ir.traces.trace import Value

MODULE, THUNK = "XlaModule", "Thunk"
_RANGE: Final = re.compile(r"(?:TSL:)?(XlaModule|Thunk|XlaLauncher):#([^#]*+)#?")
_ITEM: Final = re.compile(r"(?:^|,)(prefix|hlo_module|program_id|name|hlo_op|unique_hlo_op_id|global|local|process)=")
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_MOST_ITEMS: Final = 20
_INTEGERS: Final = frozenset(("program_id", "unique_hlo_op_id", "global", "local", "process"))


@lru_cache(maxsize=1 << 16)
def annotation_of(text: str) -> tuple[str, Mapping[str, Value]] | None:
    """The kind of an annotation, and what it holds; None if a range is not one of XLA.

    >>> annotation_of("TSL:XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_f,program_id=7#")
    ('XlaModule', {'prefix': 'jit(f)/jit(main)', 'hlo_module': 'jit_f', 'program_id': 7})
    >>> annotation_of("Thunk:#name=while/body/dot_general[x=1,y=2],hlo_op=dot.1#")
    ('Thunk', {'name': 'while/body/dot_general[x=1,y=2]', 'hlo_op': 'dot.1'})
    """
    found = _RANGE.match(text)
    if found is None:
        return None
    content = found[2]
    items = list(_ITEM.finditer(content))
    values: dict[str, Value] = {}
    for item, following in zip(items, [*items[1:], None], strict=True):
        name, value = item[1], content[item.end() : following.start() if following else len(content)]
        values[name] = int(value) if name in _INTEGERS and _INTEGER.fullmatch(value) else value
    return found[1], values


def step_of(text: str) -> tuple[str, Mapping[str, Value]] | None:
    """The name and the statistics of a step, from the range of a `StepTraceAnnotation`; None for other ranges.

    >>> step_of("TSL:train#_r=1,step_num=3#")
    ('train', {'_r': 1, 'step_num': 3})
    """
    if "step_num=" not in text:
        return None
    name, _, content = text.removeprefix("TSL:").rstrip("#").partition("#")
    values: dict[str, Value] = {}
    for item in content.split(",")[:_MOST_ITEMS]:
        key, _, value = item.partition("=")
        values[key] = int(value) if _INTEGER.fullmatch(value) else value
    return (name, values) if isinstance(values.get("step_num"), int) else None


def statistics_of(module: Mapping[str, Value], thunk: Mapping[str, Value]) -> dict[str, Value]:
    """The statistics that a trace of XLA's own profiler has for a kernel of these ranges; `hlo_op` is the last part."""
    both = {**module, **thunk}
    return {
        name: both[name] for name in ("hlo_module", "program_id", "hlo_op", "name", "unique_hlo_op_id") if name in both
    }
