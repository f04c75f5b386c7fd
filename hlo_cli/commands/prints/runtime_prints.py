"""What is in a print of arrays, of shards, of a layout of JAX, of stacks, or of the cache of a server? Sizes and "
"places.

The forms are those of jax (array.py, layout.py), py-spy, Python's faulthandler, DCGM, and vLLM.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from shlex import quote
from typing import Final, NamedTuple

from hlo_cli.commands.prints.shape_text import bytes_of_shape, layout_report
from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from

# --- arrays ---

_OPENING, _CLOSING = "([{", ")]}"
_TOKEN: Final = lazy_regex(
    r"(?P<string>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")(?P<colon>\s*:)?|(?P<array>\b(?:Array|array|DeviceArray"
    r"|ShapeDtypeStruct)\()|(?P<key>\b[A-Za-z_]\w*)=|(?P<open>[(\[{])|(?P<close>[)\]}])"
)
_SHAPE: Final = lazy_regex(r"\bshape=\(([\d, ]*)\)")
_DTYPE: Final = lazy_regex(r"\bdtype=(?:jnp\.|np\.|dtype\()?['\"]?([a-z]\w*)")
_LONGEST: Final = 1 << 20  # a print of values is cut by numpy long before; a text of this length is something else
_MOST_SUMMARIZED: Final = 1000
"""Numpy prints `...` for arrays of more elements."""


class _Array(NamedTuple):
    """An array in a print: its path, and its type and sizes; those of an abridged print are not known."""

    path: str
    type: str
    sizes: tuple[int, ...] | None

    @property
    def shape(self) -> str | None:
        """The shape, as XLA writes it; None if the sizes are not known."""
        return None if self.sizes is None else f"{self.type}[{','.join(map(str, self.sizes))}]"

    @property
    def bytes(self) -> int | None:
        """The bytes of the elements; None if the sizes or the type are not known."""
        return None if self.shape is None else bytes_of_shape(self.shape)


_ARRAYS: Final = (
    Column("bytes", "size", "bytes", total="sum", of=lambda each: each.bytes),
    Column("shape", "shape", of=lambda each: each.shape or f"{each.type}[?]"),
    Column("path", "path", "name", role="name", of=lambda each: each.path or None),
)


def arrays_report(pasted: PastedText) -> Report | None:
    """The report on a print of arrays in lists, dicts, and states, such as `jax.live_arrays()`; None if it has none."""
    arrays = list(_arrays(pasted.text[:_LONGEST]))
    if not arrays:
        return None
    known = [each for each in arrays if each.bytes is not None]
    total = sum(each.bytes or 0 for each in known)
    unknown = len(arrays) - len(known)
    words = f", {format_bytes(total)}" if known else ""
    words += f" and {format_count(unknown, 'arrays')} of unknown size" if unknown and known else ""
    words += f" of more than {_MOST_SUMMARIZED:,} elements each, which the print does not show" if unknown else ""
    if known:
        largest = max(known, key=lambda each: each.bytes or 0)
        which = "; the largest of known size is" if unknown else "; the largest is"
        words += " ".join(filter(None, (which, largest.path, largest.shape)))
    return text_report(
        pasted,
        f"{format_count(len(arrays), 'arrays')}{words}",
        means=(
            (
                "A print abridges values by `...`, so the sizes of these arrays are not in the text: print "
                "jax.tree.map(jnp.shape, tree), or (x.shape, x.dtype) of each."
            ),
        )
        if unknown
        else (),
        tables=(Table("printed_arrays", _ARRAYS, rows_from(_ARRAYS, arrays), noun="arrays", limit=20),),
        advice=("jax.profiler.save_device_memory_profile(FILE) shows where arrays are held: run `hlo FILE` on it.",),
        numbers={"arrays": len(arrays), "total_bytes": None if unknown else total, "known_bytes": total},
        next=(f"hlo layout {quote(known[0].shape or '')}",) if known else (),
    )


def _arrays(text: str) -> Iterator[_Array]:
    """The arrays in a print with the keys and fields around them."""
    path, key, at = list[str](), "", 0
    while (match := _TOKEN.search(text, at)) is not None:
        at = match.end()
        if match["array"]:
            end = _end_of(text, at - 1)
            name = ".".join(filter(None, (*path, key)))
            yield _array(name, text[at : end - 1])
            key, at = "", end
        elif match["string"]:
            key = match["string"][1:-1] if match["colon"] else key
        elif match["key"]:
            key = match["key"]
        elif match["open"]:
            path.append(key)
            key = ""
        elif path:
            path.pop()
            key = ""


def _end_of(text: str, start: int) -> int:
    """The offset after the bracket that closes the one at an offset; the end of the text if none does."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += 1 if match[0] in _OPENING else -1 if match[0] in _CLOSING else 0
        if not depth:
            return match.end()
    return len(text)


_BRACKET: Final = lazy_regex(r"[(\[{)\]}]|'[^'\n]*'")


def _array(path: str, content: str) -> _Array:
    kind, given = _DTYPE.search(content), _SHAPE.search(content)
    if given is not None:
        sizes: tuple[int, ...] | None = tuple(int(each) for each in given[1].split(",") if each.strip())
    else:
        sizes = None if "..." in content else _sizes_of(content)
    name = kind[1] if kind else "?"
    return _Array(path, _TYPES.get(name, name), sizes)


_TYPES: Final = {
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("float",) for bits in (16, 32, 64)},
    **{f"int{bits}": f"s{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "bfloat16": "bf16",
    "bool": "pred",
    "complex64": "c64",
    "complex128": "c128",
}
"""XLA's names of the types of numpy."""


def _sizes_of(content: str) -> tuple[int, ...]:
    """The sizes of nested lists of numbers: the elements of the first list of each depth.

    >>> _sizes_of("[[1., 2., 3.], [4., 5., 6.]], dtype=float32"), _sizes_of("3., dtype=float32")
    ((2, 3), ())
    """
    if not content.lstrip().startswith("["):
        return ()
    values = content[content.index("[") : _end_of(content, content.index("["))]
    rank = len(values) - len(values.lstrip("[ \n"))
    rank = values[:rank].count("[")
    total = len([each for each in re.split(r"[\[\],\s]+", values) if each])
    sizes = list[int]()
    above = 1
    for depth in range(1, rank):
        lists = _lists_at(values, depth)
        sizes.append(lists // above)
        above = max(lists, 1)
    return (*sizes, total // above)


def _lists_at(values: str, depth: int) -> int:
    """How many lists begin at a depth."""
    count = level = 0
    for character in values:
        if character == "[":
            count += level == depth
            level += 1
        elif character == "]":
            level -= 1
    return count


# --- shards ---

_SHARD: Final = lazy_regex(
    r"Shard\(device=(?P<device>\w{1,40}\([^()\n]{0,120}(?:\([^()\n]{0,60}\)[^()\n]{0,60})?\)|\w{1,40}), "
    r"index=\((?P<index>(?:slice"
    r"\([^()\n]{0,80}\)(?:, ?)?){0,8})\), replica_id=(?P<replica>\d{1,9})"
)
_SLICE: Final = lazy_regex(r"slice\((?P<start>None|\d{1,18}), ?(?P<stop>None|\d{1,18})(?:, ?(?:None|\d{1,9}))?\)")


def shards_report(pasted: PastedText) -> Report | None:
    """The report on `x.addressable_shards`: which part of an array is on which device; None if it has no shard."""
    shards = list(_SHARD.finditer(pasted.text))
    if not shards:
        return None
    parts = [tuple((each["start"], each["stop"]) for each in _SLICE.finditer(shard["index"])) for shard in shards]
    distinct = len(set(parts))
    copies = len(shards) / distinct
    words = list[str]()
    for at in range(max(map(len, parts))):
        pieces = dict.fromkeys(part[at] for part in parts if at < len(part))
        sizes = {int(stop) - int(start if start != "None" else 0) for start, stop in pieces if stop != "None"}
        size = f" of {' or '.join(map(str, sorted(sizes)))}" if sizes else ""
        words.append(f"dimension {at} in {len(pieces)} parts{size}" if len(pieces) > 1 else f"dimension {at} whole")
    columns = (
        Column("device", "device", "name", of=lambda each: each["device"]),
        Column("index", "part", of=lambda each: _part(each["index"])),
        Column("replica", "copy", "count", of=lambda each: int(each["replica"])),
    )
    same = f"{copies:g} copies of each part" if copies > 1 else "no part twice"
    listed = ", ".join(words) or "a scalar"
    return text_report(
        pasted,
        f"{format_count(len(shards), 'shards')} of an array: {listed}; {same}",
        means=("These are the shards of this process; other processes have theirs.",),
        tables=(Table("shards", columns, rows_from(columns, shards), noun="shards", limit=16),),
        numbers={"shards": len(shards), "parts": distinct, "copies": copies},
    )


def _part(index: str) -> str:
    slices = [(each["start"], each["stop"]) for each in _SLICE.finditer(index)]
    return f"[{', '.join(':'.join('' if end == 'None' else end for end in each) for each in slices)}]"


# --- layouts of JAX ---

_FORMAT: Final = lazy_regex(
    r"major_to_minor=\((?P<order>[\d, ]*)\)(?:, ?(?:tiling|_tiling)=(?P<tiles>None|\((?:\([\d, ]*\),? ?)*\)))?"
)


def format_report(pasted: PastedText) -> Report | None:
    """The report on a `Format` or a `Layout` of JAX, as XLA writes the layout; None if it has none."""
    match = _FORMAT.search(pasted.text)
    if match is None:
        return None
    order = [each.strip() for each in match["order"].split(",") if each.strip()]
    tiles = re.findall(r"\(([\d, ]+)\)", match["tiles"] or "")
    suffix = ":T" + "".join(f"({tile.replace(' ', '').rstrip(',')})" for tile in tiles) if tiles else ""
    text = f"{{{','.join(reversed(order))}{suffix}}}"
    report = layout_report(replace(pasted, text=text))
    sharding = _SHARDING.search(pasted.text)
    words = f"; sharded by {' '.join(sharding['spec'].split())}" if sharding else ""
    return replace(report, answer=f"XLA's layout {text}: {report.answer[:1].lower()}{report.answer[1:]}{words}")


_SHARDING: Final = lazy_regex(r"spec=(?P<spec>P(?:artitionSpec)?\((?:[^()\n]|\([^()\n]*\))*\))")


# --- stacks ---

_PYSPY: Final = lazy_regex(
    r"^Thread (?P<id>\S{1,20})(?: \((?P<state>[\w+]{1,20})\))?(?:: \"(?P<name>[^\"\n]{0,80})\")?"
    r"|^(?P<current>Current thread) 0x[0-9a-f]{4,16}",
    re.MULTILINE,
)
_SPY_FRAME: Final = lazy_regex(
    r"^[ \t]+(?P<function>[\w<>.\[\] ]{1,120}) \((?P<file>[^():\n]{1,300})(?::(?P<line>\d{1,7}))?\)", re.MULTILINE
)
_FAULT_FRAME: Final = lazy_regex(
    r"^[ \t]*File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7})(?: in (?P<function>[\w<>.]{1,120}))?",
    re.MULTILINE,
)
_LIBRARIES: Final = (
    *("jax/", "jaxlib/", "numpy/", "torch/", "tensorflow/", "flax/", "optax/", "orbax/", "site-packages"),
    *("/lib/python", "threading.py", "multiprocessing/", "concurrent/", "asyncio/", "selectors.py", "socket.py"),
    *("queue.py", "dist-packages", "grain/", "tensorstore/", "contextlib.py", "functools.py", "runpy.py", "absl/"),
)
_WAITS: Final = (
    ("block_until_ready", "waits until the device is done"),
    ("_value", "copies an array to the host when the device is done"),
    ("__array__", "copies an array to the host when the device is done"),
    ("device_get", "copies an array to the host when the device is done"),
    ("backend_compile", "compiles a program"),
    ("compile_or_get_cached", "compiles a program"),
    ("wait_at_barrier", "is at a barrier with other processes"),
    ("sync_global_devices", "is at a barrier with other processes"),
    ("trace_to_jaxpr", "traces a function"),
    ("__next__", "reads input"),
    ("get (queue", "reads a queue"),
    ("poll", "reads a connection"),
    ("recv", "reads a connection"),
    ("select", "reads a connection"),
    ("acquire", "waits until a lock is free"),
    ("wait (", "waits until another thread is done"),
    ("wait_for", "waits until another thread is done"),
    ("_wait", "waits until another thread is done"),
    ("save", "saves a file or checkpoint"),
    ("sleep", "sleeps"),
)
"""Functions in which Python waits, and for what; the first that is in the upper frames counts."""
_UPPER: Final = 6  # frames of the library above the call of the program


class _Stack(NamedTuple):
    """A thread: its name and state, its upper function, and the program's own line."""

    name: str
    state: str
    top: str
    own: str
    frames: int
    does: str


_STACKS: Final = (
    Column("thread", "thread", "name", of=lambda each: each.name),
    Column("state", "state", of=lambda each: each.state or None),
    Column("function", "in", of=lambda each: each.top),
    Column("own", "program's line", "source", of=lambda each: each.own or None),
    Column("frames", "frames", "count", of=lambda each: each.frames),
)


def stacks_report(pasted: PastedText) -> Report | None:
    """The report on a dump of stacks of py-spy or faulthandler: what each thread does; None if it has no frame."""
    stacks = list(_stacks(pasted.text)) or list(_folded(pasted.text))
    if not stacks:
        return None
    main = next((each for each in stacks if "Main" in each.name), stacks[0])
    where = f" at {main.own}" if main.own else ""
    does = f"{main.does} in {main.top}" if main.does else f"is in {main.top}"
    active = sum("active" in each.state for each in stacks)
    more = f"; {format_count(len(stacks), 'threads')}, {active} active" if len(stacks) > 1 else ""
    return text_report(
        pasted,
        f"{main.name} {does}{where}{more}",
        means=(
            (
                "Where a thread waits until the device is done, the line is not what is slow: the device runs the "
                "program of an earlier call."
            ),
        )
        if "device" in main.does
        else (),
        tables=(Table("stacks", _STACKS, rows_from(_STACKS, stacks), noun="threads", limit=20),),
        advice=(
            (
                "Take the dump of each process: one that is elsewhere, such as in a save or waiting for input, holds "
                "up "
                "the "
                "others. `hlo diff HOST0/ HOST1/ …` compares their programs."
            ),
        ),
        numbers={"threads": len(stacks), "active": active, "line": main.own or None},
        next=("hlo help profiles",),
    )


def _stacks(text: str) -> Iterator[_Stack]:
    heads = list(_PYSPY.finditer(text))
    for at, head in enumerate(heads):
        part = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)]
        frames = list(_SPY_FRAME.finditer(part)) or list(_FAULT_FRAME.finditer(part))
        if not frames:
            continue
        own = next((each for each in frames if not any(name in each["file"] for name in _LIBRARIES)), None)
        upper = [f"{each['function'] or '?'} ({each['file']}" for each in frames[:_UPPER]]
        does = next((words for name, words in _WAITS if any(name in each for each in upper)), "")
        first = frames[0]
        line = f"{own['file']}:{own['line']}" if own and own["line"] else ""
        name = head["name"] or (f"thread {head['id']}" if head["id"] else "The current thread")
        top = str(first["function"] or first["file"]).strip()
        yield _Stack(name, head["state"] or "", top, line, len(frames), does)


_FOLDED: Final = lazy_regex(r"^(?P<stack>[^\n;]{1,300}(?:;[^\n;]{1,300}){1,200}) (?P<count>\d{1,12})$", re.MULTILINE)


def _folded(text: str) -> Iterator[_Stack]:
    """The functions with most samples of `py-spy record -f raw`, in which the upper frame is the last."""
    counts = Counter[str]()
    for match in _FOLDED.finditer(text):
        counts[match["stack"].rpartition(";")[2].strip()] += int(match["count"])
    total = sum(counts.values())
    for frame, count in counts.most_common(20):
        share = f"{format_percent(count / total)}% of {total:,} samples"
        does = next((words for name, words in _WAITS if name in frame), "")
        yield _Stack("the process", share, frame, "", count, does)


# --- metrics of DCGM ---

_DCGM_HEAD: Final = lazy_regex(r"^#\s*Entity(?P<names>[^\n]{2,400})$", re.MULTILINE)
_DCGM_ROW: Final = lazy_regex(
    r"^(?P<entity>GPU(?:-I)? \d{1,4}(?:/\d{1,4})?)(?P<values>(?:[ \t]+(?:[\d.]{1,20}|N/A|-))+)[ \t]*$", re.MULTILINE
)
_METRICS: Final = {
    "GRACT": "graphics engine active",
    "SMACT": "multiprocessors active",
    "SMOCC": "multiprocessors occupied",
    "TENSO": "tensor cores active",
    "DRAMA": "memory bandwidth used",
    "FP64A": "FP64 units active",
    "FP32A": "FP32 units active",
    "FP16A": "FP16 units active",
}
"""Shares of time of `dcgmi dmon`, by their short names."""


def device_metrics_report(pasted: PastedText) -> Report | None:
    """The report on `dcgmi dmon`: how busy the parts of each GPU are, on average; None if it has no row."""
    head = _DCGM_HEAD.search(pasted.text)
    rows = list(_DCGM_ROW.finditer(pasted.text))
    if head is None or not rows:
        return None
    names = head["names"].split()
    values: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        cells = values.setdefault(row["entity"], {})
        for name, text in zip(names, row["values"].split(), strict=False):
            if text[:1].isdigit():
                cells.setdefault(name, []).append(float(text))
    means = {entity: {name: sum(each) / len(each) for name, each in cells.items()} for entity, cells in values.items()}
    shares = [name for name in names if name in _METRICS and any(name in cells for cells in means.values())]
    words = list[str]()
    for name in shares:
        found = sorted({format_percent(cells[name]) for cells in means.values() if name in cells}, key=float)
        words.append(f"{_METRICS[name]} {' to '.join(dict.fromkeys((found[0], found[-1])))}%")
    lead = "SMACT" if "SMACT" in shares else shares[0] if shares else ""
    least = min(means, key=lambda entity: means[entity].get(lead, 0.0))
    idle = f"; the least busy is {least}" if len(means) > 1 and lead else ""
    columns: tuple[Column[str], ...] = (
        Column("device", "device", "name", of=lambda each: each),
        *(Column(name.lower(), name, "number", of=_mean_of(means, name)) for name in names),
    )
    return text_report(
        pasted,
        f"{format_count(len(means), 'GPUs')}: {', '.join(words) or 'no shares of time'}{idle}",
        means=("Multiprocessors that are active but hardly use tensor cores run elementwise or memory-bound kernels.",)
        if "TENSO" in shares
        else (),
        tables=(Table("device_metrics", columns, rows_from(columns, list(means)), noun="devices"),),
        advice=("`hlo profile` of a trace names the kernels that make these shares.",),
        numbers={"devices": len(means)},
        next=("hlo help profiles",),
    )


def _mean_of(means: Mapping[str, Mapping[str, float]], name: str) -> Callable[[str], float | None]:
    """The cell of a metric, by the device of its row."""
    return lambda device: means[device].get(name)


# --- the cache of a server ---

_CACHE: Final = lazy_regex(
    r"(?:[Aa]vailable KV cache memory|KV cache(?: memory)?(?: size)?|KV size)[:= ]{1,3}(?P<size>[\d.]{1,12} ?[KMGT]i?B)"
    r"|KV cache size[:= ]{1,3}(?P<tokens>\d[\d,]{0,15}) tokens|max_total_num_tokens=(?P<total>\d{1,12})"
    r"|#tokens: (?P<allocated>\d{1,12})|[Mm]aximum concurrency for (?P<length>\d[\d,]{0,15}) tokens per request: "
    r"(?P<most>[\d.]{1,9})x"
    r"|# (?:GPU|cuda) blocks: (?P<blocks>\d{1,12})|K size: (?P<keys>[\d.]{1,12} ?GB), V size: (?P<values>[\d.]{1,12} "
    r"?GB)"
)
_BLOCK: Final = 16  # tokens of a block of vLLM, unless --block-size says something else
_GB: Final = 1 << 30  # servers print GiB as GB


def cache_report(pasted: PastedText) -> Report | None:
    """The report on the lines that a server writes on its KV cache: bytes, tokens, requests; None if it has none."""
    fields: dict[str, str] = {}
    for match in _CACHE.finditer(pasted.text):
        fields |= {name: value for name, value in match.groupdict().items() if value}
    counts = [fields[name] for name in ("tokens", "total", "allocated") if name in fields]
    tokens = int(counts[0].replace(",", "")) if counts else 0
    tokens = tokens or int(fields.get("blocks", 0)) * _BLOCK
    size = _bytes(fields["size"]) if "size" in fields else 0
    if "keys" in fields:
        size = _bytes(fields["keys"]) + _bytes(fields["values"])
    if not tokens and not size:
        return None
    words = list[str]()
    words += [format_bytes(size)] if size else []
    words += [f"{tokens:,} tokens"] if tokens else []
    each = f" ({format_bytes(size // tokens)} a token)" if size and tokens else ""
    requests = ""
    if "most" in fields:
        requests = f", {float(fields['most']):g} requests of {fields['length']} tokens at once"
    return text_report(
        pasted,
        f"KV cache of {' for '.join(words)}{each}{requests}",
        means=(
            (
                "The cache is what is left of the memory after weights and the program; the number of tokens in it "
                "limits "
                "how many requests run at once."
            ),
        ),
        advice=(
            (
                "For more: a smaller --max-model-len, a higher --gpu-memory-utilization, an 8-bit cache "
                "(--kv-cache-dtype fp8), or more devices (--tensor-parallel-size)."
            ),
        ),
        numbers={
            "cache_bytes": size or None,
            "tokens": tokens or None,
            "bytes_per_token": size // tokens if size and tokens else None,
        },
    )


def _bytes(text: str) -> int:
    """The bytes of a size that a server prints, in GiB also where it writes GB."""
    number = re.match(r"[\d.]+", text)
    unit = text.strip()[len(number[0]) if number else 0 :].strip()[:1] or "G"
    return int(float(number[0]) * {"K": 1 << 10, "M": 1 << 20, "T": 1 << 40}.get(unit, _GB)) if number else 0
