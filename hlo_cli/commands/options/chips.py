"""For which chip are times estimated? `--chip NAME` and `--chip-file FILE`, and the notes that name it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from hlo_cli.commands.options import completion
from hlo_cli.commands.options.declaring import option
from hlo_cli.inputs.files import read_utf8
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count, format_rate
from hlo_cli.report.table import Cell
from hlo_cli.source import Diagnostic, HloError, Source

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec, Rate
    from hlo_cli.analysis.hardware.chip_table import Chip, MeasuredTimes
    from hlo_cli.commands.options.declaring import Rules
    from hlo_cli.inputs.input import Input
    from hlo_cli.ir.module import Module


def chip_option(purpose: str, **rules: Unpack[Rules]) -> Any:
    """The field of `--chip`; `purpose` begins the help."""
    return option(
        "--chip",
        "NAME",
        group="Time estimates",
        is_common=True,
        complete=completion.chips,
        help=f"{purpose}, such as v5e or h100.",
        **rules,
    )


def chip_file_option(**rules: Unpack[Rules]) -> Any:
    """The field of `--chip-file`."""
    return option(
        "--chip-file",
        "FILE",
        group="Time estimates",
        complete=completion.files,
        help="Read specifications, or XLA's tables of measured times, from FILE (see `hlo help chips`).",
        **rules,
    )


def chosen_throughput(chip: str | None, path: str | None) -> ChipSpec | None:
    """The throughputs of the selected chip; None without one.

    >>> chosen_throughput("v5e", None).memory.per_second, chosen_throughput(None, None)
    (819000000000.0, None)
    """
    if chip is None and path is None:
        return None
    own = _own_chips(path, chip) if path is not None else {}
    if chip is not None:
        return _throughput(chip, own)
    if len(own) == 1:
        return next(iter(own.values()))
    if not own:
        raise HloError(f"no chip in {path}", hint="add a [chip.NAME] table; see `hlo help chips`")
    raise HloError(f"{path} has {len(own)} chips", hint=f"select one with --chip NAME; available: {', '.join(own)}")


def _own_chips(path: str, chip: str | None) -> Mapping[str, ChipSpec]:
    """The chips of a file: specifications, or XLA's tables of measured times."""
    from hlo_cli.analysis.hardware.chip_specs import read_throughputs

    text = _text(path)
    if _TABLE_BEGIN.match(text):
        return _chips_of_tables(Source(path, text), chip)

    def tables(name: str, files: Sequence[str]) -> MeasuredTimes:
        """The measured times of a chip, from files that are named relative to the one that names them."""
        paths = [os.path.join(os.path.dirname(path), file) for file in files]
        return _measured([Source(each, _text(each)) for each in paths], name)

    return read_throughputs(text, path, tables)


_TABLE_BEGIN: Final = lazy_regex(r"(?:\s++|#[^\n]*+)*+entries\s*+(?::\s*+)?\{")
"""How XLA's tables begin in protobuf's text format; in TOML, this is not valid."""


def _chips_of_tables(source: Source, chip: str | None) -> Mapping[str, ChipSpec]:
    """The chips of the devices in a table of XLA, with its times; of the given chip alone, if there is one."""
    from hlo_cli.analysis.hardware.chips import find_chip
    from hlo_cli.analysis.hardware.gpu_devices import chips_of_table
    from hlo_cli.syntax.compiler_files.perf_tables import read_perf_tables

    if chip is not None:
        known = find_chip(chip)
        return {known.name: replace(known.spec, measured=_measured([source], known.name))}
    devices = {device: chips_of_table(device) for device in read_perf_tables(source)}
    names = {names[0]: device for device, names in devices.items() if names}
    if not names:
        raise HloError(f"{source.name}: no known chip is {', '.join(devices)}", hint="select a chip with --chip NAME")
    return {name: replace(find_chip(name).spec, measured=_measured([source], name)) for name in names}


def _measured(sources: Sequence[Source], name: str) -> MeasuredTimes:
    """The measured times of a chip in tables of XLA; HloError if a table is of other chips.

    A shape that several tables have has the time of the last one.
    """
    from hlo_cli.analysis.hardware.chip_table import MeasuredTimes
    from hlo_cli.analysis.hardware.gpu_devices import chips_of_table, gpu_devices
    from hlo_cli.syntax.compiler_files.perf_tables import read_perf_tables

    matmuls: dict[str, dict[tuple[int, int, int, int], float]] = {}
    collectives: dict[str, dict[tuple[int, int], dict[int, float]]] = {}
    for source in sources:
        tables = read_perf_tables(source)
        matching = [table for device, table in tables.items() if name in chips_of_table(device)]
        # A chip without a target file of XLA has no name in its tables either: a table of one device is taken as its.
        is_nameless = name not in gpu_devices() and name != "mi355x"
        if not matching and is_nameless and len(tables) == 1:
            matching = list(tables.values())
        if not matching:
            raise HloError(f"{source.name}: no times of {name}", hint=f"it has times of {', '.join(tables)}")
        for table in matching:
            for types, shapes in table.matmuls.items():
                matmuls.setdefault(types, {}).update(shapes)
            for opcode, series in table.collectives.items():
                for groups, times in series.items():
                    collectives.setdefault(opcode, {}).setdefault(groups, {}).update(times)
    return MeasuredTimes(matmuls, collectives, ", ".join(source.name for source in sources))


def chip_of(dump: Input, chip: str | None, path: str | None = None) -> str | None:
    """The chip that is selected, else the one that the dump names; None for one that only a file describes.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> dump = Input(parse_module("ROOT r = f32[2] negate(f32[2] a)").source, None)
    >>> chip_of(dump, "TPU v5 lite"), chip_of(dump, "own", "chips.toml"), chip_of(dump, None)
    ('v5e', None, None)
    """
    from hlo_cli.inputs.input import target_texts

    if chip is None:
        texts = () if path is not None else tuple(target_texts(dump))
        if not texts:
            return None
        from hlo_cli.analysis.hardware.chip_specs import chip_in

        return chip_in(texts)
    from hlo_cli.analysis.hardware.chips import find_chip

    try:
        return find_chip(chip).name
    except HloError:
        if path is None:
            raise
        return None


def throughput_for(dump: Input, chip: str | None, path: str | None) -> ChipSpec | None:
    """The throughputs of the selected chip, else of the one that the dump names, if they are known.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.inputs.input import Input
    >>> dump = Input(parse_module("ROOT r = f32[2] negate(f32[2] a)").source, None)
    >>> throughput_for(dump, "v5e", None).chip, throughput_for(dump, None, None)
    ('v5e', None)
    """
    if chip is not None or path is not None:
        return chosen_throughput(chip, path)
    try:
        return chosen_throughput(chip_of(dump, None), None)
    except HloError:  # a chip without known rates
        return None


def time_model(throughput: ChipSpec) -> Mapping[str, Cell]:
    """The model of an estimate, for JSON: the chip, and every rate with its source."""
    return {
        "chip": throughput.chip,
        **_generated_kernels(throughput),
        "rates": tuple(
            {"rate": name, "unit": f"{unit}/second", "per_second": rate.per_second, "source": rate.source}
            for name, unit, rate in figures_of(throughput)
        ),
    }


def _generated_kernels(throughput: ChipSpec) -> Mapping[str, Cell]:
    from hlo_cli.analysis.hardware.gpu_devices import device_of
    from hlo_cli.analysis.hardware.time_model import LAUNCH_SECONDS

    device = device_of(throughput)
    if device is None:
        return {}
    return {"generated_kernels": f"XLA model, target {device.spec}", "seconds_per_launch": LAUNCH_SECONDS}


def figures_of(throughput: ChipSpec) -> Iterator[tuple[str, str, Rate]]:
    """The name, the unit, and the rate of every known rate of a chip.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> [name for name, _, _ in figures_of(chip_spec("v5e"))]
    ['bf16', 's8', 's4', 'memory', 'links', 'host']
    """
    for kind, rate in throughput.flops.items():
        yield kind, "flop", rate
    for name, bandwidth in (("memory", throughput.memory), ("links", throughput.links), ("host", throughput.host)):
        if bandwidth is not None:
            yield name, "byte", bandwidth


def time_notes(throughput: ChipSpec, module: Module) -> tuple[Diagnostic, ...]:
    """The model of an estimate in one sentence, and a note if the module is for another kind of chip.

    >>> from hlo_cli import parse_module
    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> note, = time_notes(chip_spec("t4"), parse_module("r = f32[2] negate(f32[2] p)"))
    >>> print(note.message)
    times are estimates for t4: 65 Tflop/s in f16, 320 GB/s memory, 16 GB/s host; see `hlo help chips`
    """
    from hlo_cli.analysis.hardware.chips import known_chips
    from hlo_cli.analysis.hardware.target import target_of

    peak = next(((kind, throughput.flops[kind]) for kind in ("bf16", "f16", "f32") if kind in throughput.flops), None)
    rates = [f"{format_rate(peak[1].per_second, 'flop')} in {peak[0]}"] if peak is not None else []
    bandwidths = [(name, rate) for name, unit, rate in figures_of(throughput) if unit == "byte"]
    rates += [f"{format_rate(rate.per_second, 'B')} {name}" for name, rate in bandwidths]
    chip = next((chip for chip in known_chips() if chip.name == throughput.chip), None)
    meaning = f" ({chip.meaning})" if chip is not None and chip.meaning else ""
    words = f"times are estimates for {throughput.chip}{meaning}: {', '.join(rates)}"
    other = mismatch(chip, target_of(module))
    words += f"; {own}" if (own := own_times_in_words(throughput)) else ""
    messages = (f"{words}; see `hlo help chips`", *((other,) if other else ()))
    return tuple(Diagnostic("note", message) for message in messages)


def own_times_in_words(throughput: ChipSpec) -> str:
    """What a file of the user has measured, in words; empty without one.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> own_times_in_words(chip_spec("t4"))
    ''
    """
    own = throughput.measured
    if own is None:
        return ""
    numbers = (
        (sum(map(len, own.matmuls.values())), "matmuls"),
        (sum(len(times) for series in own.collectives.values() for times in series.values()), "collectives"),
    )
    counted = " and ".join(format_count(number, noun) for number, noun in numbers if number)
    return f"measured times of {counted} from {own.source}"


_LEFT_OUT: Final = "their range is that of a measured chip that the fit did not include"


def kernel_times_in_words(chip: ChipSpec, *, is_optimized: bool = True) -> str:
    """What the times of kernels on a chip are based on; XLA's model is for optimized modules.

    >>> from hlo_cli.analysis.hardware.chip_specs import chip_spec
    >>> kernel_times_in_words(chip_spec("h100"))
    "times of generated kernels follow XLA's own model, plus 2.95 µs per launch; ranges hold 80% of measured times"
    """
    from hlo_cli.analysis.hardware.chip_table import FEW_KERNELS
    from hlo_cli.analysis.hardware.chips import is_tpu
    from hlo_cli.analysis.hardware.gpu_devices import device_of
    from hlo_cli.analysis.hardware.measured_times import has_matmul_times
    from hlo_cli.analysis.hardware.time_model import (
        LAUNCH_SECONDS,
        TPU_BAND,
        TPU_FLOOR_SECONDS,
        TPU_MATMUL_FACTOR,
        TPU_VMEM_RATE,
    )

    if chip.calibration is not None:
        classes = chip.calibration.classes
        kernels = format_count(sum(each.kernels for each in classes.values()), "kernels")
        words = f"times follow {kernels} in {format_count(len(classes), 'classes')}, {chip.calibration.source}"
        words += "; ranges hold 80% of their time"
        thin = [
            f"{name} ({format_count(each.kernels, 'kernels')})"
            for name, each in classes.items()
            if each.kernels < FEW_KERNELS
        ]
        return f"{words}, wide where few were measured: {', '.join(thin)}" if thin else words
    launch = f"{LAUNCH_SECONDS * 1e6:.2f} µs"
    matmuls = "" if has_matmul_times(chip) else f"; no matmuls of {chip.chip} were measured: {_LEFT_OUT}"
    if is_optimized and device_of(chip) is not None:
        words = f"times of generated kernels follow XLA's own model, plus {launch} per launch"
        return f"{words}; ranges hold 80% of measured times{matmuls}"
    if chip.cores:
        return f"each kernel adds {launch} for its launch; ranges hold 80% of measured times{matmuls}"
    words = f"times assume the peak rates of {chip.chip}"
    if is_tpu(chip.chip):
        words += f", and for matmuls {TPU_MATMUL_FACTOR} times that, as on v5p; an operation takes at least"
        words += f" {TPU_FLOOR_SECONDS * 1e6:.1f} µs"
        words += f"; VMEM is read at {TPU_VMEM_RATE:.0f} times the rate of HBM, as on v5e"
        return f"{words}; ranges end at {TPU_BAND[1]} times the roofline, with VMEM at the rate of HBM"
    return f"{words}, where no kernels were measured; ranges end at {TPU_BAND[1]} times that"


def mismatch(chip: Chip | None, target: str | None) -> str:
    """A note if a dump is for another kind of chip; empty if it is not, or if that is unknown.

    >>> from hlo_cli.analysis.hardware.chips import find_chip
    >>> mismatch(find_chip("v5e"), "gpu"), mismatch(find_chip("v5e"), None)
    ('v5e is a TPU, but the module was compiled for GPU', '')
    """
    if chip is None or target is None or target == chip.target:
        return ""
    return f"{chip.name} is a {chip.target.upper()}, but the module was compiled for {target.upper()}"


def _throughput(chip: str, own: Mapping[str, ChipSpec]) -> ChipSpec:
    from hlo_cli.analysis.hardware.chip_specs import chip_spec

    try:
        return chip_spec(chip, own)
    except HloError as error:
        if not own:
            raise
        raise HloError(f"{error.diagnostic.message}, and {', '.join(own)}", hint=error.diagnostic.hint) from error


def _text(path: str) -> str:
    try:
        return read_utf8(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise HloError(f"cannot read {path}: {reason}") from error
