"""`--stub TARGET=FILE.py` and `--feed FILE`: Python functions for custom calls, and arrays for infeeds."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Final

from hlo_cli.inputs.files import read_bytes
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.evaluate.host import Stub
    from hlo_cli.analysis.semantics.typed_values import Array
    from hlo_cli.ir.module import Module

FUNCTION: Final = "stub"
"""The function of a stub's file, if the option does not name another."""


def stubs_from(given: Sequence[str]) -> dict[str, Stub]:
    """The functions by custom call target; the files are run as Python.

    HloError for options of another form, files that cannot be read or run, and files without the function.
    """
    found: dict[str, Stub] = {}
    for each in given:
        target, equals, path = each.partition("=")
        if not (target and equals and path):
            raise HloError(f"--stub expects TARGET=FILE.py, found '{each}'", hint="such as --stub my_op=my_op.py")
        if target in found:
            raise HloError(f"--stub is given twice for {target}")
        found[target] = _function(path)
    return found


def checked_stubs(given: Sequence[str], *modules: Module) -> dict[str, Stub]:
    """The same; HloError if none of the modules calls a target."""
    if not given:
        return {}
    from hlo_cli.analysis.evaluate.host import check_host

    stubs = stubs_from(given)
    check_host(modules, stubs)
    return stubs


def feed_from(paths: Sequence[str]) -> list[Array] | None:
    """The arrays of files, in their order; None without files."""
    if not paths:
        return None
    from hlo_cli.commands.run.arguments import arrays_in_file

    return [array for path in paths for _, array in arrays_in_file(path)]


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
        places = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
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
