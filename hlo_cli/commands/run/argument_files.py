"""What is a run given, and what does it save? Arguments from files, Python functions, feeds, and archives."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import wraps
from math import prod
from typing import Final

from hlo_cli.analysis.comparison.verdict import distance
from hlo_cli.analysis.evaluate.arguments import (
    Check,
    array_of_numbers,
    arrays_in,
    made_up_arguments,
    npz_bytes,
    whole_arguments,
)
from hlo_cli.analysis.evaluate.devices import runs_on_devices
from hlo_cli.analysis.evaluate.host import Stub, check_host
from hlo_cli.analysis.evaluate.program import constant
from hlo_cli.analysis.evaluate.run import Run
from hlo_cli.analysis.semantics.rearranging import array_in_memory, bytes_in_memory
from hlo_cli.analysis.semantics.typed_values import Array, Value, arrays_of
from hlo_cli.commands.run.options import RunOptions
from hlo_cli.inputs.files import MAX_FILE_BYTES, read_bytes
from hlo_cli.ir.attributes.value_types import Literal
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError
from hlo_cli.syntax.proto.read_snapshot import RawArray, Snapshot, read_snapshot

# --- raw bytes ---
# `--args raw:FILE@SHAPE` and `--save-raw FILE`: values as the bytes that they have in the memory of a device.


RAW: Final = "raw:"
"""What --args begins with if the file has bytes in memory."""


def _raw_argument(given: str, module: Module, number: int, *, max_bytes: int = MAX_FILE_BYTES) -> Array:
    """The argument `number`, whose bytes are in a file, in the layout that is given, or else in that of the parameter.

    HloError for files that cannot be read, other numbers of bytes, and other types than that of the parameter.
    """
    from hlo_cli.syntax.scanning.shape_reader import parse_shape

    path, separator, text = given.removeprefix(RAW).rpartition("@")
    if not separator:
        path, text = text, ""
    parameters = module.entry.parameters
    if number >= len(parameters):
        raise HloError(f"the entry has {len(parameters)} parameters; {given} is argument {number}")
    parameter = parameters[number]
    shape: Shape = parse_shape(text) if text else parameter.shape
    if not isinstance(shape, ArrayShape) or not isinstance(parameter.shape, ArrayShape):
        raise HloError(f"{given} requires an array, but {parameter.name} is {parameter.shape}")
    if shape.element_type is not parameter.shape.element_type:
        raise HloError(f"{path} has elements of {shape.element_type}, but {parameter.name} is {parameter.shape}")
    try:
        data = read_bytes(path, limit=max_bytes)
    except OSError as error:
        raise HloError(f"cannot read {path}: {error.strerror or error}") from None
    return array_in_memory(data, shape)


def raw_value(run: Run, module: Module, watched: tuple[Instruction, ...]) -> bytes:
    """The bytes in memory of the instruction of --at, when it runs for the first time, or else of result 0."""
    if len(watched) > 1:
        raise HloError("--save-raw writes one value", hint="use --at once, or -o FILE.npz for several values")
    instruction = watched[0] if watched else module.entry.root
    assert instruction is not None
    if watched and not run.watched[instruction]:
        raise HloError(f"{instruction.name} does not run")
    value = run.watched[instruction][0] if watched else run.result
    if watched and not isinstance(instruction.shape, ArrayShape):
        raise HloError(f"--save-raw requires an array, but {instruction.name} is {instruction.shape}")
    for _, array, shape in arrays_of(value, instruction.shape):
        return bytes_in_memory(array, shape)
    raise HloError(f"{instruction.name} has no arrays")


# --- arguments ---
# Arguments of a run from files: `.npz` archives, one `.npy` file each, JSON, or bytes in memory.


def arguments_of(options: RunOptions, module: Module) -> tuple[Value, ...] | None:
    """The arguments that options give to a module; None if all are made up."""
    if not options.args:
        return None
    seed = options.seed if options.fills else None
    return _arguments_from(options.args, module, seed=seed, max_bytes=options.limits.max_bytes)


def _arguments_from(
    paths: Sequence[str], module: Module, *, seed: int | None = None, max_bytes: int = MAX_FILE_BYTES
) -> tuple[Value, ...]:
    """The arguments of the entry: by parameter name or number in archives and JSON objects, else in their order.

    With a seed, those that the files do not have are made up. HloError for files that cannot be read, for unknown
    names, for more than `max_bytes`, and if the number of arguments is another one.
    """
    parameters = module.entry.parameters

    def check(name: str, sizes: tuple[int, ...]) -> None:
        parameter = parameters[_place(name, module, path)]
        if isinstance(parameter.shape, ArrayShape) and prod(sizes) > max(prod(parameter.shape.dimensions), 1):
            raise HloError(f"array '{name}' in {path} is {list(sizes)}, but {parameter.name} is {parameter.shape}")

    arrays: dict[int, Array] = {}
    following = 0
    for path in paths:
        if path.startswith(RAW):
            arrays[following] = _raw_argument(path, module, following, max_bytes=max_bytes)
            following += 1
            continue
        for name, array in _arrays_in_file(path, check=check, max_bytes=max_bytes):
            if name is None:
                place, following = following, following + 1
            else:
                place = _place(name, module, path)
            if place in arrays:
                raise HloError(f"--args has parameter {place} twice; the second time in {path}")
            arrays[place] = array
    missing = [parameter.name for index, parameter in enumerate(parameters) if index not in arrays]
    if seed is not None and missing and max(arrays, default=0) < len(parameters):
        others = (whole_arguments if runs_on_devices(module) else made_up_arguments)(module, seed=seed)
        return tuple(arrays[index] if index in arrays else others[index] for index in range(len(parameters)))
    if missing or len(arrays) != len(parameters):
        listed = f"; missing: {', '.join(missing[:5])}" if missing else ""
        hint = "use --seed N to make up the others" if missing and seed is None else None
        raise HloError(
            f"--args has {format_count(len(arrays), 'arguments')}, but the entry has "
            f"{format_count(len(parameters), 'parameters')}{listed}",
            hint=hint,
        )
    if seed is not None:
        raise HloError("--seed has no effect: --args has all arguments", hint="remove --seed")
    return tuple(arrays[index] for index in range(len(parameters)))


def _place(name: str, module: Module, path: str) -> int:
    """The number of the parameter that a name means: its name, a number, or what numpy calls an unnamed array."""
    for index, parameter in enumerate(module.entry.parameters):
        if name.lstrip("%") == parameter.name:
            return index
    number = name.removeprefix("arr_").removeprefix("arg_").removeprefix("arg").removeprefix("_")
    if number.isdecimal() and int(number) < len(module.entry.parameters):
        return int(number)
    names = ", ".join(parameter.name for parameter in module.entry.parameters[:5])
    raise HloError(f"unknown parameter '{name}' in {path}", hint=f"parameters: {names}; or use arg_0, arg_1, …")


def _arrays_in_file(
    path: str, *, check: Check | None = None, max_bytes: int = MAX_FILE_BYTES
) -> Iterator[tuple[str | None, Array]]:
    """The arrays of a `.npz`, `.npy`, or `.json` file with their names; HloError if it cannot be read.

    Names and shapes in an archive are given to `check` before the arrays are read.
    """

    try:
        data = read_bytes(path, limit=max_bytes)
    except OSError as error:
        raise HloError(f"cannot read {path}: {error.strerror or error}") from None
    if not data.startswith(_ARRAYS) and (snapshot := read_snapshot(data)) is not None:
        yield from ((None, _array_of(each, path)) for each in snapshot.arguments)
        return
    if os.path.splitext(path)[1].lower() != ".json":
        yield from arrays_in(data, path, check=check, max_bytes=max_bytes)
        return
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HloError(f"cannot read {path}: {error}") from None
    if isinstance(content, Mapping):
        yield from ((str(name), array_of_numbers(value)) for name, value in content.items())
    else:
        yield from ((None, array_of_numbers(value)) for value in (content if isinstance(content, list) else [content]))


# --- snapshots ---
# `hlo run SNAPSHOT` takes the arguments that XLA recorded, and compares with the recorded result.

_ARRAYS: Final = (b"PK", b"\x93NUMPY", b"[", b"{")
"""How archives and arrays of NumPy begin, and JSON."""


def snapshot_of(path: str | None, *, max_bytes: int = MAX_FILE_BYTES) -> Snapshot | None:
    """The values in the file that a module was read from; None if it is no snapshot, or has no arguments."""
    if path is None:
        return None
    try:
        return read_snapshot(read_bytes(path, limit=max_bytes))
    except OSError:
        return None


def _array_of(value: Literal | RawArray, path: str) -> Array:
    """An argument of a snapshot as an array."""
    if isinstance(value, RawArray):
        return array_in_memory(_bytes_of_elements(value), value.shape)
    found = constant(value, "exact")
    if found is None or isinstance(found, tuple):
        raise HloError(f"{path} has a tuple as an argument; only arrays are read", hint="pass the arrays with --args")
    return found


def _bytes_of_elements(array: RawArray) -> bytes:
    """The elements with a byte each if the file has predicates as bits."""
    if array.shape.element_type.kind == "pred" and len(array.data) != array.shape.elements:
        return bytes(
            array.data[at >> 3] >> (at & 7) & 1 for at in range(min(array.shape.elements, 8 * len(array.data)))
        )
    return array.data


def recorded_words(run: Run, module: Module, snapshot: Snapshot) -> str:
    """How far the results of a run are from those in a snapshot, as a note; empty if it has none."""
    root = module.entry.root
    if snapshot.result is None or root is None:
        return ""
    recorded = list(arrays_of(constant(snapshot.result, "exact"), root.shape))
    computed = list(arrays_of(run.result, root.shape))
    if len(recorded) != len(computed):
        return f"the snapshot has {format_count(len(recorded), 'results')}, the run {len(computed)}"
    farthest = max((distance(old, new) for (_, old, _), (_, new, _) in zip(recorded, computed, strict=True)), default=0)
    if not farthest:
        return "equal to the result in the snapshot"
    return f"the result in the snapshot differs by at most {farthest:.2g} of its largest magnitude"


# --- --stub and --feed ---
# `--stub TARGET=FILE.py` and `--feed FILE`: Python functions for custom calls, and arrays for infeeds.


FUNCTION: Final = "stub"
"""The function of a stub's file, if the option does not name another."""


def stubs_from(given: Sequence[str]) -> dict[str, Stub]:
    """The functions by custom call target; the files are run as Python.

    HloError for options of another form, files that cannot be read or run, and files without the function.
    """
    stubs: dict[str, Stub] = {}
    for argument in given:
        target, equals, path = argument.partition("=")
        if not (target and equals and path):
            raise HloError(f"--stub expects TARGET=FILE.py, found '{argument}'", hint="such as --stub my_op=my_op.py")
        if target in stubs:
            raise HloError(f"--stub is given twice for {target}")
        stubs[target] = _function(path)
    return stubs


def checked_stubs(given: Sequence[str], *modules: Module) -> dict[str, Stub]:
    """The same; HloError if none of the modules calls a target."""
    if not given:
        return {}
    stubs = stubs_from(given)
    check_host(modules, stubs)
    return stubs


def feed_from(paths: Sequence[str]) -> list[Array] | None:
    """The arrays of files, in their order; None without files."""
    if not paths:
        return None

    return [array for path in paths for _, array in _arrays_in_file(path)]


def _function(given: str) -> Stub:
    path, name = given, FUNCTION
    if not os.path.exists(path) and ":" in path:
        path, _, name = path.rpartition(":")
    try:
        code = compile(read_bytes(path), path, "exec")
    except OSError as error:
        raise HloError(f"cannot read {path}: {error.strerror or error}") from None
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise HloError(f"{path}{line} is not Python: {getattr(error, 'msg', error)}") from None
    names: dict[str, object] = {"__name__": "hlo_stub", "__file__": path}
    try:
        with redirect_stdout(sys.stderr):
            exec(code, names)
    except (Exception, SystemExit) as error:
        places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = f":{places[-1].lineno}" if places else ""
        raise HloError(f"{path}{line} failed: {type(error).__name__}: {error}") from error
    function = names.get(name)
    if not callable(function):
        hint = f"define `def {name}(*operands, shape):` in {path}, or name a function with --stub TARGET=FILE.py:NAME"
        raise HloError(f"{path} has no function {name}", hint=hint)
    return _quiet(function)


def _quiet(function: Callable[..., object]) -> Stub:
    """The function, which prints to standard error: standard output is for results."""

    @wraps(function)
    def run(*operands: object, **keywords: object) -> object:
        with redirect_stdout(sys.stderr):
            return function(*operands, **keywords)

    return run


# --- values as an archive ---
# The values of a run as a `.npz` archive.


def archive(run: Run, module: Module, watched: Sequence[Instruction], max_bytes: int) -> Iterator[bytes]:
    """One array for each result, `result_0` and so on, or for each value that was asked for, by its name.

    With the results are the values of outfeeds, `outfed_0` and so on. HloError if all of them exceed `max_bytes`: a
    value may be much larger than the memory it takes, such as one that was broadcast.
    """
    root = module.entry.root
    assert root is not None
    outfed = {
        _name("outfed", (execution, *index)): array
        for execution, (instruction, value) in enumerate(run.outfed)
        for index, array, _ in arrays_of(value, instruction.operand_shape(0))
    }
    if not watched:
        results = {_name("result", index): array for index, array, _ in arrays_of(run.result, root.shape)}
        yield _bytes(results | outfed, max_bytes)
        return
    yield _bytes(
        {
            _name(instruction.name, (*((execution,) if len(values) > 1 else ()), *index)): array
            for instruction in watched
            for values in (run.watched[instruction],)
            for execution, value in enumerate(values)
            for index, array, _ in arrays_of(value, instruction.shape)
        },
        max_bytes,
    )


def _bytes(arrays: Mapping[str, Array], max_bytes: int) -> bytes:
    size = sum(array.nbytes for array in arrays.values())
    if size > max_bytes:
        raise HloError(
            f"the values to write have {size / 2**30:.3g} GiB, above the limit of {max_bytes / 2**30:.3g} GiB",
            hint="use --max-memory SIZE to raise the limit",
        )
    return npz_bytes(arrays)


def _name(name: str, index: tuple[int, ...]) -> str:
    return "_".join((name, *map(str, index)))
