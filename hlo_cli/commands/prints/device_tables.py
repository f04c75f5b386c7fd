"""How full, busy, or fast are devices and kernels, by the table of a tool: nvidia-smi, tpu-info, Nsight Compute, nsys?

Also the statistics that XLA's latency-hiding scheduler prints of a schedule.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from math import prod
from typing import Final, Literal, NamedTuple

from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_percent, format_seconds
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from, rows_from_tuples
from hlo_cli.syntax.byte_sizes import parse_size

# --- memory and load of devices ---


class _Device(NamedTuple):
    """A device in a table: its number, its kind, what of its memory is used, and how busy it is."""

    number: str
    kind: str
    used_bytes: int | None
    limit_bytes: int | None
    busy: float | None
    given_share: float | None = None

    @property
    def share(self) -> float | None:
        """The share of the memory that is in use; None if a size is unknown."""
        if self.used_bytes is None or not self.limit_bytes:
            return self.given_share
        return self.used_bytes / self.limit_bytes


_DEVICES: Final = (
    Column("device", "device", "name", of=lambda each: each.number),
    Column("kind", "kind", of=lambda each: each.kind or None),
    Column("used_bytes", "used", "bytes", of=lambda each: each.used_bytes),
    Column("limit_bytes", "memory", "bytes", of=lambda each: each.limit_bytes),
    Column("used", "share", "percent", of=lambda each: each.share),
    Column("busy", "busy", "percent", of=lambda each: each.busy),
)
_NVIDIA_NAME: Final = lazy_regex(
    r"^\|? +(?P<number>\d{1,4}) {2,}(?P<kind>[A-Z][\w \-/.]{2,40}?) +(?:On|Off) ", re.MULTILINE
)
_NVIDIA_USE: Final = lazy_regex(
    r"(?:\||W|N/A) +(?P<used>\d{1,8})MiB {0,4}/ {0,4}(?P<limit>\d{1,8})MiB(?: *\|? +(?P<busy>\d{1,3})%)?", re.MULTILINE
)
_NVIDIA_UNKNOWN: Final = lazy_regex(
    r"^\|?[^|\n]{10,60}\| +(?:\[?N/A\]?|Not Supported|Unknown(?: Error)?)(?: / (?:\[?N/A\]?))? +\| +(?P<busy>\d{1,3})%",
    re.MULTILINE,
)
"""The row of a GPU whose memory is that of the host, such as GB10 or Thor, so that the driver has no sizes."""
_TPU_ROW: Final = lazy_regex(
    r"^\W{0,4}(?P<number>\d{1,6})\W{1,12}(?P<used>\d{1,6}(?:\.\d{1,4})?) ?GiB ?/ ?(?P<limit>\d{1,6}(?:\.\d{1,4})?) ?GiB"
    r"(?:\W{1,20}(?P<busy>\d{1,3}(?:\.\d{1,4})?)%)?",
    re.MULTILINE,
)
_OF_TPUS: Final = lazy_regex(r"TPU|HBM")
_QUERY_HEAD: Final = lazy_regex(r"^[^\n]{0,300}memory\.used[^\n]{0,300}memory\.total[^\n]{0,300}$", re.MULTILINE)
_STATS_ROW: Final = lazy_regex(
    r"Using \(GB\) (?P<used>\d{1,6}(?:\.\d{1,6})?) / (?P<limit>\d{1,6}(?:\.\d{1,6})?)(?: \([\d.]{1,20}%\))? on "
    r"(?P<number>\w{1,40})"
)
_PARTS_OF_GPUS: Final = "MIG devices:"  # the head of a table of parts, whose memory is in the rows of their GPUs
_GB: Final = 10**9  # the unit of MaxText's log
_MIB: Final = 1 << 20  # the unit of nvidia-smi
_GIB: Final = 1 << 30  # the unit of tpu-info
_PREALLOCATED: Final = (
    "JAX takes 75% of a GPU's memory when it starts (XLA_PYTHON_CLIENT_MEM_FRACTION), so what the tool calls used "
    "is not what arrays and programs need; jax.local_devices()[0].memory_stats() is."
)


def device_usage_report(pasted: PastedText) -> Report | None:
    """The report on a table of nvidia-smi or tpu-info; None if it has no device."""
    if (summary := _torch_memory(pasted)) is not None:
        return summary
    devices = list(
        _nvidia(pasted.text)
        or _amd(pasted.text)
        or _queried(pasted.text)
        or [*_tpus(pasted.text), *_logged(pasted.text).values()]
    )
    if not devices:
        return None
    fullest = max(devices, key=lambda each: (each.used_bytes or 0, each.share or 0))
    is_nvidia = any(each.search(pasted.text) for each in (_NVIDIA_USE, _NVIDIA_UNKNOWN, _QUERY_HEAD))
    noun = "GPUs" if is_nvidia else "TPU devices" if _OF_TPUS.search(pasted.text) else "devices"
    share = (
        f" ({format_percent(fullest.share)}%)" if fullest.used_bytes is not None and fullest.share is not None else ""
    )
    busy = [each.busy for each in devices if each.busy is not None]
    loads = " to ".join(f"{format_percent(share)}%" for share in sorted({min(busy), max(busy)})) if busy else ""
    load = f", {loads} busy" if busy else ""
    which = (
        f"{format_count(len(devices), noun)}{load}; the fullest, {fullest.number}, has"
        if len(devices) > 1
        else f"{noun[:-1]} {fullest.number}{load}:"
    )
    return text_report(
        pasted,
        f"{which} {_in_use(fullest)}{share}{_unknown_memory(devices)}",
        means=(_PREALLOCATED,) if is_nvidia else (),
        tables=(Table("device_usage", _DEVICES, rows_from(_DEVICES, devices), noun="devices"),),
        advice=("`hlo memspace DUMP` shows what a program needs, by instruction and source line.",),
        numbers={
            "devices": len(devices),
            "used_bytes": fullest.used_bytes,
            "limit_bytes": fullest.limit_bytes,
            "total_used_bytes": None
            if any(each.used_bytes is None for each in devices)
            else sum(each.used_bytes or 0 for each in devices),
        },
        next=("hlo help memory",),
    )


def _in_use(device: _Device) -> str:
    if device.used_bytes is None or device.limit_bytes is None:
        if device.share is not None:
            return f"{format_percent(device.share)}% of its memory in use"
        return "the memory in use is unknown"
    return f"{format_bytes(device.used_bytes)} of {format_bytes(device.limit_bytes)} in use"


def _unknown_memory(devices: list[_Device]) -> str:
    """The devices without sizes, if others have them, as a clause."""
    known = sum(each.share is not None for each in devices)
    unknown = [each.number for each in devices if each.used_bytes is None and each.share is None]
    return f"; the memory of {', '.join(unknown[:8])} is unknown" if unknown and known else ""


def _nvidia(text: str) -> list[_Device]:
    text = text.partition(_PARTS_OF_GPUS)[0]
    names = list(_NVIDIA_NAME.finditer(text))
    starts = [name.start() for name in names]
    devices = list[_Device]()
    rows = [*_NVIDIA_USE.finditer(text), *_NVIDIA_UNKNOWN.finditer(text)]
    for at, match in enumerate(sorted(rows, key=lambda row: row.start())):
        before = bisect_left(starts, match.start())
        number, kind = (names[before - 1]["number"], names[before - 1]["kind"].strip()) if before else (str(at), "")
        busy = float(match["busy"]) / 100 if match["busy"] else None
        used, limit = (
            (int(match["used"]) * _MIB, int(match["limit"]) * _MIB) if "used" in match.groupdict() else (None, None)
        )
        devices.append(_Device(number, kind, used, limit, busy))
    return devices


_AMD_HEAD: Final = lazy_regex(r"^(?=[^\n]{0,300}GPU%)[^\n]{0,300}VRAM%[^\n]{0,300}$", re.MULTILINE)
# the default print of rocm-smi has shares alone, as its columns are narrow
_AMD_ROW: Final = lazy_regex(
    r"^(?P<number>\d{1,3}) [^\n]{1,300}? (?P<share>\d{1,3})% +(?P<busy>\d{1,3})%[ \t]*$", re.MULTILINE
)


def _amd(text: str) -> list[_Device]:
    """The rows of rocm-smi, which has shares of the memory in place of sizes; its last columns are VRAM% and GPU%."""
    if (head := _AMD_HEAD.search(text)) is None:
        return []
    return [
        _Device(match["number"], "", None, None, int(match["busy"]) / 100, int(match["share"]) / 100)
        for match in _AMD_ROW.finditer(text, head.end())
    ]


_TORCH_ROW: Final = lazy_regex(
    r"^[| ]{0,4}(?P<name>Allocated memory|GPU reserved memory|Non-releasable memory) +\| +(?P<now>\d{1,18}) "
    r"(?P<unit>[KMGT]i?B|B) *"
    r"\| +(?P<most>\d{1,18}) (?P<most_unit>[KMGT]i?B|B)",
    re.MULTILINE,
)
_TORCH_ERRORS: Final = lazy_regex(r"CUDA OOMs: (?P<errors>\d{1,9}) +\| +cudaMalloc retries: (?P<retries>\d{1,9})")


def _torch_memory(pasted: PastedText) -> Report | None:
    """The report on `torch.cuda.memory_summary()`; None if the text has none."""
    rows = {match["name"]: match for match in _TORCH_ROW.finditer(pasted.text)}
    held, reserved = rows.get("Allocated memory"), rows.get("GPU reserved memory")
    if held is None or reserved is None:
        return None
    sizes = {
        name: parse_size(f"{match[key]}{match[unit]}")
        for name, match, key, unit in (
            ("allocated_bytes", held, "now", "unit"),
            ("peak_bytes", held, "most", "most_unit"),
            ("reserved_bytes", reserved, "now", "unit"),
        )
    }
    errors = _TORCH_ERRORS.search(pasted.text)
    words = (
        (
            f"; {format_count(int(errors['errors']), 'out-of-memory errors')}, "
            f"{format_count(int(errors['retries']), 'retries')}"
        )
        if errors is not None
        else ""
    )
    return text_report(
        pasted,
        f"Tensors of PyTorch use {format_bytes(sizes['allocated_bytes'])} (at most "
        f"{format_bytes(sizes['peak_bytes'])}) of "
        f"{format_bytes(sizes['reserved_bytes'])} that PyTorch has reserved{words}",
        means=("What is reserved and not used is a cache of PyTorch, or is in pieces between tensors.",),
        advice=(
            (
                "With retries, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; the peak is what a smaller "
                "batch or checkpointing lowers."
            ),
        ),
        numbers=sizes,
    )


def _tpus(text: str) -> Iterator[_Device]:
    for match in _TPU_ROW.finditer(text):
        busy = float(match["busy"]) / 100 if match["busy"] else None
        used, limit = (int(float(match[name]) * _GIB) for name in ("used", "limit"))
        yield _Device(match["number"], "", used, limit, busy)


def _queried(text: str) -> list[_Device]:
    """The rows of `nvidia-smi --query-gpu=… --format=csv`."""
    head = _QUERY_HEAD.search(text)
    if head is None:
        return []
    columns = [cell.strip().split(" [")[0] for cell in head[0].split(",")]
    devices = list[_Device]()
    for at, line in enumerate(text[head.end() :].strip().split("\n")):
        cells = dict(zip(columns, (cell.strip() for cell in line.split(",")), strict=False))
        used, limit, busy = (
            _leading(cells.get(name, "")) for name in ("memory.used", "memory.total", "utilization.gpu")
        )
        if len(cells) < len(columns):
            continue
        share = None if busy is None else busy / 100
        number = cells.get("index", str(at))
        used_bytes, limit_bytes = (None if each is None else each * _MIB for each in (used, limit))
        devices.append(_Device(number, cells.get("name", ""), used_bytes, limit_bytes, share))
    return devices


def _leading(cell: str) -> int | None:
    """The number that a cell begins with; None if it has none."""
    match = re.match(r"[0-9]{1,9}", cell)
    return int(match[0]) if match else None


def _logged(text: str) -> dict[str, _Device]:
    """The devices in MaxText's memory statistics, which it logs several times, as they are in the last."""
    found = dict[str, _Device]()
    for match in _STATS_ROW.finditer(text):
        used, limit = (int(float(match[name]) * _GB) for name in ("used", "limit"))
        found[match["number"]] = _Device(match["number"], "", used, limit, None)
    return found


# --- steps of a training ---

_STEP: Final = lazy_regex(
    r"\bstep[: =]{1,3}(?P<step>\d[\d,]{0,14}(?<!,))[,:]? +(?:\w{2,20}[=:] ?[\d.e+\-]{1,20},? +){0,4}"
    r"(?:seconds|step_time|step_time_s|time|sec)[: =]{1,3}"
    r"(?P<time>\d{1,9}+(?:\.\d{1,20}+)?(?:[eE][+\-]?\d{1,2}+)?)(?!:|[.,]\d)"
    r"(?: ?(?P<unit>ms|us|µs|ns|s|sec|seconds)\b)?+"
    r"(?!\w| (?:m|mins?|minutes?|h|hours?)\b)"
    r"(?:,? +TFLOP/s/device: (?P<rate>\d[\d,]{0,14}(?<!,)(?:\.\d{1,9})?))?"
    r"(?:,? +Tokens/s/device: (?P<tokens>\d[\d,]{0,14}(?<!,)(?:\.\d{1,9})?))?"
)
_OF_UNIT: Final = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SLOW: Final = 1.5  # times the median: steps vary by some percent, so such a step did something else (measured logs)


class _Step(NamedTuple):
    """A step of a training, with its time and the rates that its line has."""

    number: int
    seconds: float
    tflops: float | None
    tokens: float | None


_STEPS: Final = (
    Column("step", "step", "count", of=lambda each: each.number),
    Column("seconds", "time", "seconds", of=lambda each: each.seconds),
    Column("tflops", "Tflop/s a device", "number", of=lambda each: each.tflops),
    Column("tokens", "tokens/s", "number", of=lambda each: each.tokens),
)


def _steps(text: str) -> list[_Step]:
    """The steps in the order of the log; of one that several processes log, the longest, for which the others wait."""
    found = dict[int, _Step]()
    for match in _STEP.finditer(text):
        number = int(match["step"].replace(",", ""))
        seconds = float(match["time"]) * _OF_UNIT.get(match["unit"] or "s", 1)
        rate, tokens = (float(match[name].replace(",", "")) if match[name] else None for name in ("rate", "tokens"))
        if number not in found or seconds > found[number].seconds:
            found[number] = _Step(number, seconds, rate, tokens)
    return list(found.values()) or list(_loose_steps(text))


# --- steps in the form of any training loop: a number of a step, and a time or a rate with its unit ---

_NUMBER_OF_STEP: Final = lazy_regex(
    r"(?<![\w/])(?:global[_ ]?step|train[_ ]?step|steps?|iter(?:ation)?s?|it|batch)\b['\"]? ?[:=#\[ ]{1,3}"
    r"(?P<step>\d[\d,]{0,12})(?![\d.])|(?<![\w.])(?P<bar>\d{1,12})/\d{1,12} \[\d\d:\d\d",
    re.IGNORECASE,
)
_TIME_OF_STEP: Final = lazy_regex(
    r"(?<![\w.])(?P<value>\d{1,9}(?:\.\d{1,12})?) ?(?P<unit>ms|us|µs|s|secs?|seconds|minutes?|mins?)(?: ?/ "
    r"?(?:it|iter(?:ation)?"
    r"|step|batch))?(?![\w/])"
    r"|(?<![\w.])(?P<rate>\d{1,9}(?:\.\d{1,12})?) ?(?:it|iters?|iterations?|steps?|batches)(?:/| per "
    r")(?:s|sec|second)\b"
    r"|\b(?P<key>(?:step|iter|iteration|batch|elapsed|train)?_?(?:time|dt|duration|elapsed|seconds|secs)(?:_per_step)?"
    r"(?:_(?P<key_unit>ms|s|sec|secs|seconds|us))?)['\"]? ?[:=] "
    r"?(?P<keyed>\d{1,9}(?:\.\d{1,12})?(?:e-?\d{1,3})?)(?![\w:.])"
    r"|\b(?:steps|iters?|iterations)_per_sec(?:ond)?['\"]? ?[:=] ?(?P<keyed_rate>\d{1,9}(?:\.\d{1,12})?)",
    re.IGNORECASE,
)
_TOKENS_OF_STEP: Final = lazy_regex(
    r"(?P<tokens>\d[\d,.]{0,15})(?P<thousand>k?) ?(?:tok(?:en)?s?)(?:/| per )(?:s|sec|second)\b"
    r"|tokens?_per_sec(?:ond)?(?:_per_\w+)?['\"]? ?[:=] ?(?P<keyed_tokens>\d[\d,.]{0,15})",
    re.IGNORECASE,
)
_UNITS_OF_STEP: Final = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "minute": 60.0}
_FEWEST_STEPS: Final = 2
"""One line with a step and a time may be of anything; a training logs many."""


def _loose_steps(text: str) -> Iterator[_Step]:
    """The steps of a log in another form: lines with the number of a step and a time, a rate, or a key of a time."""
    found = list[_Step]()
    for line in text.split("\n"):
        number, time = _NUMBER_OF_STEP.search(line), _TIME_OF_STEP.search(line)
        if number is None or time is None:
            continue
        if rate := time["rate"] or time["keyed_rate"]:
            seconds = 1 / float(rate) if float(rate) else 0.0
        else:
            unit = (time["unit"] or time["key_unit"] or "s").lower()
            value = float(time["value"] or time["keyed"])
            seconds = value * next((each for name, each in _UNITS_OF_STEP.items() if unit.startswith(name)), 1.0)
        tokens = _TOKENS_OF_STEP.search(line)
        count = (tokens["tokens"] or tokens["keyed_tokens"]).rstrip(".,").replace(",", "") if tokens else ""
        per_second = float(count) * (1000 if tokens and tokens["thousand"] else 1) if _is_number(count) else None
        if seconds:
            found.append(_Step(int((number["step"] or number["bar"]).replace(",", "")), seconds, None, per_second))
    if len({each.number for each in found}) >= _FEWEST_STEPS:
        yield from found


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,15}(?:\.\d{1,15})?", text))


def step_times_report(pasted: PastedText) -> Report | None:
    """The report on a log of training steps: the median, and those that take much longer; None if it has none."""
    steps = _steps(pasted.text)
    if not steps:
        return None
    middle = sorted(steps, key=lambda each: each.seconds)[(len(steps) - 1) // 2]
    slow = [each for each in steps if each.seconds > _SLOW * middle.seconds]
    rate = f", {middle.tflops:,.0f} Tflop/s a device" if middle.tflops is not None else ""
    words = f"; {format_count(len(slow), 'steps')} much longer: " if slow else ""
    words += ", ".join(f"step {each.number:,} {format_seconds(each.seconds)}" for each in slow[:3])
    return text_report(
        pasted,
        f"{format_count(len(steps), 'steps')}, {format_seconds(middle.seconds)} at the median{rate}{words}",
        means=(
            "The first steps also compile; a long step later is a compilation for a new shape, a checkpoint, or input.",
        )
        if slow
        else (),
        tables=(Table("step_times", _STEPS, rows_from(_STEPS, steps), noun="steps", limit=20),),
        advice=(
            (
                "Record a few steps with jax.profiler.trace(DIR) and run `hlo profile DIR` to see what the time is "
                "spent on."
            ),
        ),
        numbers={"steps": len(steps), "seconds": middle.seconds, "slow_steps": len(slow), "tflops": middle.tflops},
        next=("hlo help profiles",),
    )


# --- versions and devices ---

_VERSION: Final = lazy_regex(r"^(?P<name>jax|jaxlib|numpy|python): +(?P<version>\d[\w.+\-]{0,60})", re.MULTILINE)
_TOTAL: Final = lazy_regex(
    r"jax\.devices \((?P<all>\d{1,9}) total, (?P<local>\d{1,9}) local\): \[?(?P<kind>[A-Za-z]{1,20})"
    r"|device info: (?P<info>[^\n,]{1,80}?)(?:-(?P<count>\d{1,9}))?, (?P<here>\d{1,9}) local devices"
)
_PROCESSES: Final = lazy_regex(r"process_count: (?P<count>\d{1,9})")


def environment_report(pasted: PastedText) -> Report | None:
    """The report on `jax.print_environment_info()`: versions, and whether they belong together; None if it has none."""
    versions = {match["name"]: match["version"] for match in _VERSION.finditer(pasted.text)}
    jax, jaxlib = versions.get("jax"), versions.get("jaxlib")
    if jax is None or jaxlib is None:
        return None
    devices = _TOTAL.search(pasted.text)
    processes = _PROCESSES.search(pasted.text)
    words = ""
    if devices is not None:
        kind = (devices["kind"] or devices["info"]).removesuffix("Device")
        count, here = devices["all"] or devices["count"] or devices["here"], devices["local"] or devices["here"]
        words = f", {count} × {kind}" + (f" ({here} of them here)" if here != count else "")
    words += f" in {format_count(int(processes['count']), 'processes')}" if processes else ""
    is_newer = _numbers_of(jaxlib) > _numbers_of(jax)
    columns = (
        Column("package", "package", "name", of=lambda name, version: name),
        Column("version", "version", of=lambda name, version: version),
    )
    return text_report(
        pasted,
        f"jax {jax}, jaxlib {jaxlib}{words}",
        means=(
            (
                "jaxlib is newer than jax, which jax refuses: install the same version of both."
                if is_newer
                else "jaxlib may be older than jax, down to the version that jax names, but not newer."
            ),
        ),
        tables=(Table("versions", columns, rows_from_tuples(columns, versions.items()), noun="packages"),),
        numbers={
            **versions,
            "devices": int(devices["all"] or devices["count"] or devices["here"]) if devices else None,
        },
    )


def _numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"[0-9]{1,9}", version)[:3])


# --- kernels in Nsight Compute ---

_KERNEL: Final = lazy_regex(
    r"^ *+(?P<name>[\w<>:~][^\n]{0,2000}?) \((?P<grid>\d{1,10}(?:, ?\d{1,10}){2})\)x"  # CUDA's grids are below 2**31
    r"\((?:\d{1,10}(?:, ?\d{1,10}){2})\), Context \d",
    re.MULTILINE,
)
_METRIC: Final = lazy_regex(
    r"^ *+(?P<name>[A-Z][\w/()\-]*+(?: [\w/()\-]++)*+) {2,}+(?:(?P<unit>[%\w/]{1,16}+) ++)?"
    r"(?P<value>\d[\d,]{0,19}(?:\.\d{1,9})?) *+$",
    re.MULTILINE,
)
_SECONDS: Final = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0}


class _Kernel(NamedTuple):
    """A kernel that Nsight Compute measured."""

    name: str
    seconds: float | None
    memory: float | None
    compute: float | None
    registers: float | None
    blocks: int


_KERNELS: Final = (
    Column("seconds", "time", "seconds", of=lambda each: each.seconds),
    Column("memory", "memory", "percent", of=lambda each: each.memory),
    Column("compute", "compute", "percent", of=lambda each: each.compute),
    Column("registers", "registers", "count", of=lambda each: each.registers),
    Column("blocks", "blocks", "count", of=lambda each: each.blocks),
    Column("kernel", "kernel", "name", role="name", of=lambda each: each.name),
)
_BUSY: Final = 0.6  # Nsight Compute calls a kernel bound by what is above 60% of its peak (SpeedOfLight rules)


def kernel_metrics_report(pasted: PastedText) -> Report | None:
    """The report on a print of Nsight Compute; None if it has no kernel."""
    heads = list(_KERNEL.finditer(pasted.text))
    if not heads:
        return None
    ends = [*(each.start() for each in heads[1:]), len(pasted.text)]
    kernels = [_kernel(head, pasted.text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
    first = max(kernels, key=lambda each: each.seconds or 0)
    shares = [
        f"{word} at {format_percent(share)}% of its peak"
        for word, share in (("memory", first.memory), ("compute", first.compute))
        if share is not None
    ]
    count = f"{format_count(len(kernels), 'kernels')}, the longest " if len(kernels) > 1 else ""
    time = f" takes {format_seconds(first.seconds)}" if first.seconds is not None else ""
    return text_report(
        pasted,
        f"{count}{first.name}{time}{': ' if shares else ''}{', '.join(shares)}{_bound(first)}",
        means=("A kernel has the name of its instruction, with _ for each dot and dash.",),
        tables=(Table("kernel_metrics", _KERNELS, rows_from(_KERNELS, kernels), noun="kernels"),),
        advice=("`hlo fuse DUMP --chip NAME` shows the time that the traffic of each kernel needs at least.",),
        numbers={"kernels": len(kernels), "kernel": first.name, "seconds": first.seconds},
        next=("hlo help profiles",),
    )


def _kernel(head: re.Match[str], text: str) -> _Kernel:
    metrics = dict[str, float]()
    for match in _METRIC.finditer(text):
        value = float(match["value"].replace(",", ""))
        unit = match["unit"] or ""
        name = match["name"]
        metrics.setdefault(name, value * _SECONDS[unit] if name == "Duration" and unit in _SECONDS else value)
    share = {name: metrics[name] / 100 for name in metrics if name.endswith("Throughput")}
    return _Kernel(
        head["name"].split("(")[0].removeprefix("void ").strip(),
        metrics.get("Duration"),
        share.get("DRAM Throughput", share.get("Memory Throughput")),
        share.get("Compute (SM) Throughput"),
        metrics.get("Registers Per Thread"),
        prod(int(each) for each in head["grid"].split(",")),
    )


def _bound(kernel: _Kernel) -> str:
    """What limits a kernel, as a clause."""
    memory, compute = kernel.memory, kernel.compute
    if memory is None or compute is None:
        return ""
    if max(memory, compute) < _BUSY:
        return f"; both are below {format_percent(_BUSY)}% of their peaks, so latency or too few blocks limit it"
    return f"; bound by {'memory' if memory > compute else 'compute'}"


# --- copies in nsys ---

_COPY: Final = lazy_regex(
    r"^[ \t|]*+(?:(?P<share>\d{1,3}(?:\.\d{1,3})?)[ \t|]++(?=[\d,.]++[ \t|]++[\d,]++[ \t|]))?"
    r"(?P<total>\d[\d,]{0,19}(?:\.\d{1,6})?)[ \t|]++(?P<count>\d[\d,]{0,11})[ \t|]"
    r"[^\n\[]{0,300}\[CUDA (?P<what>mem\w{1,6} ?[\w\- ]{0,40})\]",
    re.MULTILINE,
)
_COPY_HEAD: Final = lazy_regex(
    r"(?P<size>cuda_gpu_mem_size_sum|gpumemsizesum|Total \(MB\))|cuda_gpu_mem_time_sum|gpumemtimesum|Total Time \(ns\)"
)
_MEGABYTE: Final = 10**6  # nsys counts in units of 1,000,000


def _copies(text: str) -> tuple[list[tuple[float, int, str]], bool]:
    """The copies of the table by time, else of that by size, and whether it is that; each head begins a table."""
    heads = list(_COPY_HEAD.finditer(text))
    tables = dict[bool, list[tuple[float, int, str]]]({False: [], True: []})
    starts = [head.start() for head in heads]
    for match in _COPY.finditer(text):
        before = bisect_left(starts, match.start())
        is_size = bool(before and heads[before - 1]["size"])
        if match["share"] is None and not is_size:
            continue  # a table by time has shares, so this is of another one
        total, count = float(match["total"].replace(",", "")), int(match["count"].replace(",", ""))
        tables[is_size].append((total, count, match["what"]))
    by_size = not tables[False]
    return tables[by_size], by_size


def copies_report(pasted: PastedText) -> Report | None:
    """The report on the copies of a GPU in `nsys stats`, by time if the text has both; None if it has none."""
    copies, by_size = _copies(pasted.text)
    if not copies:
        return None
    unit: Literal["bytes", "seconds"] = "bytes" if by_size else "seconds"
    factor = _MEGABYTE if by_size else 1e-9

    def amount(total: float) -> int | float:
        return int(total * factor) if by_size else total * factor

    def words(total: float) -> str:
        return format_bytes(int(total * factor)) if by_size else format_seconds(total * factor)

    columns: tuple[Column[float, int, str], ...] = (
        Column(f"total_{unit}", "total", unit, total="sum", of=lambda total, count, what: amount(total)),
        Column("count", "copies", "count", total="sum", of=lambda total, count, what: count),
        Column("operation", "operation", of=lambda total, count, what: what),
    )
    ordered = sorted(copies, reverse=True)
    listed = ", ".join(
        f"{what.removeprefix('memcpy ')} {words(total)} in {count:,}" for total, count, what in ordered[:3]
    )
    return text_report(
        pasted,
        f"{format_count(sum(count for _, count, _ in copies), 'copies and fills')} {'have' if by_size else 'take'} "
        f"{words(sum(total for total, _, _ in copies))}: {listed}",
        means=("Copies with the host are arguments, results, and offloaded arrays, and Python that reads values.",),
        tables=(Table("copies", columns, rows_from_tuples(columns, ordered), noun="kinds"),),
        advice=(
            (
                "In a training step, look for float(x) and print(x), which block until the device is done, and for "
                "input that is copied in many small pieces."
            ),
        ),
        numbers={"copies": sum(count for _, count, _ in copies), unit: amount(sum(total for total, _, _ in copies))},
        next=("hlo help profiles",),
    )


# --- statistics of a schedule ---

_STATISTIC: Final = lazy_regex(
    r"^ *(?P<name>Total wasted cycles|Wasted cycles for [\w\- ]{1,40}|Total cycles|Memory pressure peak \(bytes\)): ?"
    r"(?P<value>\d{1,18})(?:\.\d{1,6})?"
    r"|For computation: (?P<computation>[^\s,]{1,300})(?:, module [^\s,(]{1,300})?",
    re.MULTILINE,
)
_WASTED: Final = "Wasted cycles for "
_EXPOSED: Final = "Total wasted cycles"


class _Schedule(NamedTuple):
    """The statistics of the schedule of a computation, by their name in XLA's print."""

    computation: str
    values: dict[str, int]

    @property
    def kinds(self) -> list[tuple[int, str]]:
        """Exposed cycles and the collective, most first."""
        named = self.values.items()
        return sorted(((value, name.removeprefix(_WASTED)) for name, value in named if name.startswith(_WASTED)))[::-1]


_SCHEDULES: Final = (
    Column("exposed_cycles", "exposed cycles", "count", of=lambda each: each.values.get(_EXPOSED)),
    Column("cycles", "cycles", "count", of=lambda each: each.values.get("Total cycles")),
    Column("peak_bytes", "peak", "bytes", of=lambda each: each.values.get("Memory pressure peak (bytes)")),
    Column("computation", "computation", "name", role="name", of=lambda each: each.computation),
)


def _schedules(text: str) -> list[_Schedule]:
    """The statistics of each computation: a new one begins where it is named, or where a statistic comes again."""
    found = list[_Schedule]()
    for match in _STATISTIC.finditer(text):
        name = match["name"]
        if name is None or not found or name in found[-1].values:
            found.append(_Schedule(match["computation"] or "", {}))
        if name is not None:
            found[-1].values[name] = int(match["value"])
    return [each for each in found if _EXPOSED in each.values]


def schedule_statistics_report(pasted: PastedText) -> Report | None:
    """The report on the statistics of XLA's latency-hiding scheduler; None if it has no cycles."""
    schedules = _schedules(pasted.text)
    if not schedules:
        return None
    worst = max(schedules, key=lambda each: each.values[_EXPOSED])
    exposed, cycles = worst.values[_EXPOSED], worst.values.get("Total cycles")
    kinds, peak = worst.kinds, worst.values.get("Memory pressure peak (bytes)")
    count = f"{format_count(len(schedules), 'schedules')}; the one" if len(schedules) > 1 else "The schedule"
    where = f" of {worst.computation}" if worst.computation else ""
    where += " with the most exposed cycles" if len(schedules) > 1 and not worst.computation else ""
    of = f" of {cycles:,} cycles ({format_percent(exposed / cycles)}%)" if cycles else " cycles"
    listed = ", ".join(f"{name} {value:,}" for value, name in kinds if value)
    columns = (
        Column("cycles", "exposed cycles", "count", of=lambda value, name: value),
        Column("kind", "kind", of=lambda value, name: name),
    )
    return text_report(
        pasted,
        f"{count}{where} exposes {exposed:,}{of} of collectives{': ' if listed else ''}{listed}"
        + (f"; memory peaks at {format_bytes(peak)} ({peak:,} bytes)" if peak is not None else ""),
        means=(
            "Wasted cycles are those in which a collective is in flight and nothing computes, by XLA's cost model.",
        ),
        tables=(
            *((Table("wasted_cycles", columns, rows_from_tuples(columns, kinds), noun="kinds"),) if kinds else ()),
            *(
                (Table("schedules", _SCHEDULES, rows_from(_SCHEDULES, schedules), noun="schedules"),)
                if len(schedules) > 1
                else ()
            ),
        ),
        advice=("`hlo schedule DUMP` shows which collectives are exposed, and how long.",),
        numbers={"exposed_cycles": exposed, "cycles": cycles, "peak_bytes": peak},
        next=("hlo help async",),
    )
