"""`--args raw:FILE@SHAPE` and `--save-raw FILE`: values as the bytes that they have in the memory of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_cli.inputs.files import MAX_FILE_BYTES, read_bytes
from hlo_cli.ir.shape import ArrayShape, Shape
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.run import Run
    from hlo_cli.analysis.semantics.typed_values import Array
    from hlo_cli.ir.instruction import Instruction
    from hlo_cli.ir.module import Module

RAW: Final = "raw:"
"""What --args begins with if the file has bytes in memory."""


def raw_argument(given: str, module: Module, number: int, *, max_bytes: int = MAX_FILE_BYTES) -> Array:
    """The argument `number`, whose bytes are in a file, in the layout that is given, or else in that of the parameter.

    HloError for files that cannot be read, other numbers of bytes, and other types than that of the parameter.
    """
    from hlo_cli.analysis.semantics.rearranging import array_in_memory
    from hlo_cli.syntax.scanning.shape_reader import parse_shape

    path, at, text = given.removeprefix(RAW).rpartition("@")
    if not at:
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
    from hlo_cli.analysis.semantics.rearranging import bytes_in_memory
    from hlo_cli.analysis.semantics.typed_values import arrays_of

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
