"""Arguments of a run from files: `.npz` archives, one `.npy` file each, JSON, or bytes in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from hlo_cli.commands.run.options import RunOptions
from hlo_cli.commands.run.raw import RAW, raw_argument
from hlo_cli.inputs.files import MAX_FILE_BYTES, read_bytes
from hlo_cli.ir.module import Module
from hlo_cli.ir.shape import ArrayShape
from hlo_cli.report.numbers import format_count
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.arguments import Check
    from hlo_cli.analysis.semantics.typed_values import Array, Value


def arguments_of(options: RunOptions, module: Module) -> tuple[Value, ...] | None:
    """The arguments that options give to a module; None if all are made up."""
    if not options.args:
        return None
    seed = options.seed if options.fills else None
    return arguments_from(options.args, module, seed=seed, max_bytes=options.limits.max_bytes)


def arguments_from(
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

    found: dict[int, Array] = {}
    following = 0
    for path in paths:
        if path.startswith(RAW):
            found[following] = raw_argument(path, module, following, max_bytes=max_bytes)
            following += 1
            continue
        for name, array in arrays_in_file(path, check=check, max_bytes=max_bytes):
            if name is None:
                place, following = following, following + 1
            else:
                place = _place(name, module, path)
            if place in found:
                raise HloError(f"--args has parameter {place} twice; the second time in {path}")
            found[place] = array
    missing = [parameter.name for at, parameter in enumerate(parameters) if at not in found]
    if seed is not None and missing and max(found, default=0) < len(parameters):
        from hlo_cli.analysis.evaluate.arguments import made_up_arguments, whole_arguments
        from hlo_cli.analysis.evaluate.devices import runs_on_devices

        others = (whole_arguments if runs_on_devices(module) else made_up_arguments)(module, seed=seed)
        return tuple(found[at] if at in found else others[at] for at in range(len(parameters)))
    if missing or len(found) != len(parameters):
        listed = f"; missing: {', '.join(missing[:5])}" if missing else ""
        hint = "use --seed N to make up the others" if missing and seed is None else None
        raise HloError(
            f"--args has {format_count(len(found), 'arguments')}, but the entry has "
            f"{format_count(len(parameters), 'parameters')}{listed}",
            hint=hint,
        )
    if seed is not None:
        raise HloError("--seed has no effect: --args has all arguments", hint="remove --seed")
    return tuple(found[at] for at in range(len(parameters)))


def _place(name: str, module: Module, path: str) -> int:
    """The number of the parameter that a name means: its name, a number, or what numpy calls an unnamed array."""
    for at, parameter in enumerate(module.entry.parameters):
        if name.lstrip("%") == parameter.name:
            return at
    number = name.removeprefix("arr_").removeprefix("arg_").removeprefix("arg").removeprefix("_")
    if number.isdecimal() and int(number) < len(module.entry.parameters):
        return int(number)
    names = ", ".join(parameter.name for parameter in module.entry.parameters[:5])
    raise HloError(f"unknown parameter '{name}' in {path}", hint=f"parameters: {names}; or use arg_0, arg_1, …")


def arrays_in_file(
    path: str, *, check: Check | None = None, max_bytes: int = MAX_FILE_BYTES
) -> Iterator[tuple[str | None, Array]]:
    """The arrays of a `.npz`, `.npy`, or `.json` file with their names; HloError if it cannot be read.

    Names and shapes in an archive are given to `check` before the arrays are read.
    """
    from hlo_cli.analysis.evaluate.arguments import array_of_numbers, arrays_in

    try:
        data = read_bytes(path, limit=max_bytes)
    except OSError as error:
        raise HloError(f"cannot read {path}: {error.strerror or error}") from None
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
