"""Which devices does a program have, and which parameters a model, by what JAX, Flax, and Keras print?

The forms are those of PJRT's devices (lists, and arrays of NumPy as in `mesh.devices`), of `Module.tabulate`,
`nnx.tabulate`, and `print` of an NNX module, and of Keras's `summary()`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

from hlo_cli.commands.prints.text_report import text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, format_percent
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from

# --- devices ---

_DEVICE: Final = lazy_regex(
    r"(?P<kind>\w{2,30}?)Device\(id=(?P<id>\d{1,9})(?:, process_index=(?P<process>\d{1,9}))?"
    r"(?:, coords=\((?P<coordinates>[\d, ]{1,40})\))?[^()\n]{0,100}\)"
)
_TOKEN: Final = lazy_regex(rf"[\[\]]|{_DEVICE.pattern}")
# plugins have names of their own for one platform, and they changed with releases
_PLATFORMS: Final = {"StreamExecutorGpu": "GPU", "Cuda": "GPU", "Gpu": "GPU", "Rocm": "GPU", "Cpu": "CPU", "Tpu": "TPU"}
_MOST_AXES: Final = 16  # more than any mesh has


def devices_report(pasted: PastedText) -> Report | None:
    """The report on a list or an array of devices; None if it has none."""
    devices = {int(match["id"]): match for match in _DEVICE.finditer(pasted.text)}
    if not devices:
        return None
    first = next(iter(devices.values()))
    processes = Counter(int(match["process"] or 0) for match in devices.values())
    platform = _PLATFORMS.get(first["kind"], first["kind"])
    sizes = _array_sizes(pasted.text)
    as_mesh = f", as an array of {' × '.join(map(str, sizes))}" if len(sizes) > 1 else ""
    several = f" in {format_count(len(processes), 'processes')}" if len(processes) > 1 else ""
    torus = _torus([match["coordinates"] for match in devices.values()])
    chips = f"; coordinates {' × '.join(map(str, torus))}" if torus else ""
    if several and len(set(processes.values())) == 1:
        several += f" ({len(devices) // len(processes):,} each)"
    return text_report(
        pasted,
        f"{format_count(len(devices), f'{platform} devices')}{several}{as_mesh}{chips}",
        means=("In an array of devices, those along the last axis are neighbors of the mesh.",) if as_mesh else (),
        advice=(
            (
                "jax.sharding.Mesh(devices, names) names the axes; "
                "XLA_FLAGS=--xla_force_host_platform_device_count=N gives "
                "N devices on a CPU."
                if platform == "CPU"
                else "jax.make_mesh(sizes, names) orders the devices so that collectives use the fastest links."
            ),
        ),
        numbers={"devices": len(devices), "platform": platform, "processes": len(processes)},
        next=("hlo help sharding",),
    )


def _array_sizes(text: str) -> tuple[int, ...]:
    """The sizes of the first nested list of devices, by the number of entries in the first list of each level."""
    counts = list[int]()
    depth = 0
    seen = [0] * (_MOST_AXES + 1)
    for match in _TOKEN.finditer(text):
        if match[0] == "[":
            seen[depth] += 1
            depth += 1
            if depth > _MOST_AXES:
                return ()
            seen[depth] = 0
            counts += [0] * (depth - len(counts))
        elif match[0] == "]":
            counts[depth - 1] = counts[depth - 1] or seen[depth] if depth else 0
            depth -= 1
            if depth <= 0:
                return tuple(counts)
        else:
            seen[depth] += 1
    return ()


def _torus(coordinates: list[str | None]) -> tuple[int, ...]:
    """The sizes of the box of all coordinates; empty if a device has none."""
    if not all(coordinates):
        return ()
    places = [tuple(int(each) for each in re.findall(r"[0-9]{1,9}", place or "")) for place in coordinates]
    return tuple(max(axis) - min(axis) + 1 for axis in zip(*places, strict=False))


# --- parameters of a model ---

_TOTAL: Final = lazy_regex(
    r"(?:Total (?:Parameters|params):|^\w{1,80}\( # Param:)\s*(?P<count>\d{1,3}(?:,?\d{1,3}){0,6})"
    r"(?:\s*\((?P<size>[\d.]{1,12} ?[KMGT]?i?B)\))?",
    re.MULTILINE,
)
_COUNT: Final = lazy_regex(r"(?P<count>\d{1,3}(?:,\d{3}){0,6}) \((?P<size>[\d.]{1,12} [KMGT]?B)\)")
_RULE: Final = lazy_regex(r"^[ \t]*[\u251c\u2521\u2514\u2517].*$", re.MULTILINE)
_BARS: Final = lazy_regex(r"[\u2502\u2503|]")
_KERAS_ROW: Final = lazy_regex(
    r"^[\u2502| ]{0,4}(?P<name>[\w./]{1,100} \(\w{1,60}\))[\u2502| "
    r"]+(?:\[?\((?:None|\d{1,12})[^\n\u2502]{0,100}?\)\]?|\?)"
    r"[\u2502| ]+(?P<count>\d{1,3}(?:,?\d{3}){0,6})(?= |\u2502|$)",
    re.MULTILINE,
)
_NNX_PART: Final = lazy_regex(
    r"^  (?P<name>\w{1,80})=\w{1,80}\( # (?:Param: )?(?P<count>\d{1,3}(?:,\d{3}){0,6}) \(", re.MULTILINE
)


class _Layer(NamedTuple):
    """A layer with parameters of its own."""

    name: str
    parameters: int


_LAYERS: Final = (
    Column("elements", "elements", "count", of=lambda layer: layer.parameters),
    Column("path", "path", "name", role="name", of=lambda layer: layer.name),
)


def model_summary_report(pasted: PastedText) -> Report | None:
    """The report on a table of layers: the number of parameters, and the layer with most; None if it has no total."""
    total = _TOTAL.search(pasted.text)
    if total is None:
        return None
    count = _number(total["count"])
    layers = sorted(_layers(pasted.text), key=lambda layer: -layer.parameters)
    size = f" ({total['size']})" if total["size"] else ""
    most = ""
    if layers and layers[0].parameters and count:
        share = format_percent(min(1.0, layers[0].parameters / count))
        most = f"; {layers[0].name} has the most, {layers[0].parameters:,} ({share}%)"
    tables = (Table("tree_arrays", _LAYERS, rows_from(_LAYERS, layers), noun="layers", limit=20),) if layers else ()
    return text_report(
        pasted,
        f"Model of {format_count(count, 'parameters')}{size}{most}",
        means=(
            (
                "Training with Adam in f32 needs four times the memory of the parameters (values, gradients, two "
                "moments), and that of activations, which the table does not have."
            ),
        ),
        tables=tables,
        advice=("`hlo memspace DUMP` shows what the compiled step needs, by instruction and source line.",),
        numbers={"parameters": count, "layers": len(layers)},
        next=("hlo help dump",),
    )


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _layers(text: str) -> list[_Layer]:
    """The layers of the form that the text has, each with its own parameters."""
    if rows := [_Layer(match["name"], _number(match["count"])) for match in _KERAS_ROW.finditer(text)]:
        return rows
    if rows := [_Layer(match["name"], _number(match["count"])) for match in _NNX_PART.finditer(text)]:
        return rows
    found = list[_Layer]()
    for block in _RULE.split(text):
        lines = [line for line in block.split("\n") if _BARS.search(line)]
        counted = [match for line in lines for match in _COUNT.finditer(line)]
        cells = [cell.strip() for cell in _BARS.split(lines[0])] if lines else []
        name = next((cell for cell in cells[:2] if cell), "")
        # the row of the whole model has no path, and that of totals has a word in the place of a type
        is_layer = bool(cells) and bool(cells[1 if not cells[0] and len(cells) > 1 else 0])
        if counted and name and is_layer and "Total" not in lines[0]:
            found.append(_Layer(name, sum(_number(match["count"]) for match in counted)))
    # the row of an NNX model itself has no path, but its type looks like one where margins were cut off
    whole = sum(layer.parameters for layer in found[1:])
    return found[1:] if len(found) > 1 and found[0].parameters == whole else found
