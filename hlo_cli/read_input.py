"""The module of an input, which knows the dump of the same program before optimizations."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from hlo_cli.analysis.shapes.omitted_shape import omitted_shape
from hlo_cli.inputs.input import Input
from hlo_cli.ir.module import Module
from hlo_cli.source import HloError
from hlo_cli.syntax.read import read_module


def read_input(given: Input, *, strict: bool = False) -> Module:
    """The module of an input; `Module.program` and `Module.proto` are read from files next to it, when asked for.

    >>> from hlo_cli.source import Source
    >>> module = read_input(Input(Source("m.txt", "HloModule m  ENTRY e { ROOT p = f32[2] parameter(0) }"), None))
    >>> module.name, module.program
    ('m', None)
    """
    module = read_module(given.source, given.proto, strict=strict, infer=omitted_shape)
    if given.path is not None and given.dump is not None:
        module.read_program = partial(_read_program, given)
        module.read_proto = partial(_read_proto, given.path)
    return module


def _read_program(given: Input) -> Module | None:
    """The module in the first dump of the same program; None without one, or if it cannot be read."""
    from hlo_cli.inputs.input import read_inputs
    from hlo_cli.inputs.passes import first_dump

    assert given.path is not None
    assert given.dump is not None
    with suppress(HloError, OSError):
        path = first_dump(given.path, given.dump)
        for each in [] if path is None else read_inputs([path])[:1]:
            return read_module(each.source, each.proto, infer=omitted_shape)
    return None


def _read_proto(path: str) -> Module | None:
    """The module in the proto next to a text; None without one, or if it cannot be read."""
    from hlo_cli.inputs.dumps import proto_of
    from hlo_cli.inputs.input import read_inputs

    with suppress(HloError, OSError):
        found = proto_of(path)
        for each in [] if found is None else read_inputs([found])[:1]:
            return read_module(each.source, each.proto)
    return None
