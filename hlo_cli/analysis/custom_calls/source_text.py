"""C or C++ source file with a function for each distinct custom call that requires a user-defined one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hlo_cli.analysis.custom_calls.c_names import Identifiers, escape_comment
from hlo_cli.analysis.custom_calls.c_signature import c_function, c_prelude
from hlo_cli.analysis.custom_calls.call import DecodedCall
from hlo_cli.analysis.custom_calls.ffi import attribute_type
from hlo_cli.analysis.custom_calls.ffi_signature import ffi_handler, ffi_prelude

_RESERVED: Final = frozenset(("CUstream", "ELEMENT", "XlaCustomCallStatus", "ffi", "xla", "xla_c64", "xla_c128"))


def source_of(calls: Sequence[DecodedCall]) -> Iterator[str]:
    """Yields the lines of the file; calls with different shapes or attribute types have separate functions.

    Calls without a user-defined function are listed in comments.
    """
    groups = list(_distinct([call for call in calls if call.target.is_user_defined]))
    typed = [group for group in groups if group[0].is_typed]
    plain = [group for group in groups if not group[0].is_typed]
    for target, words in dict.fromkeys(
        (c.spec.target, c.target.description) for c in calls if not c.target.is_user_defined
    ):
        yield f"/* {escape_comment(target)} needs no user-defined function: {words}. */"
    names = Identifiers(_RESERVED)
    if plain:
        yield from c_prelude(tuple(group[0] for group in plain))
        yield ""
        yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif")
        yield from _functions(plain, names)
        yield from ("", "#ifdef __cplusplus", "}", "#endif")
    if typed:
        if plain:
            yield from ("", "#ifdef __cplusplus")
        yield from ffi_prelude()
        yield from _functions(typed, names)
        if plain:
            yield "#endif"


def _functions(groups: Sequence[Sequence[DecodedCall]], names: Identifiers) -> Iterator[str]:
    for group in groups:
        call = group[0]
        name = names.unique_name(call.spec.target)
        callers = ", ".join(each.instruction.name for each in group[:3])
        more = f", and {len(group) - 3:,} more" if len(group) > 3 else ""
        yield ""
        target = escape_comment(call.spec.target)
        yield f"/* {target}, {call.spec.api_version}; called by {escape_comment(callers)}{more}. */"
        yield from ffi_handler(call, name, names) if call.is_typed else c_function(call, name)


def _distinct(calls: Sequence[DecodedCall]) -> Iterator[list[DecodedCall]]:
    """Calls grouped by the signature of their functions."""
    groups: dict[tuple[object, ...], list[DecodedCall]] = {}
    for call in calls:
        entries = call.config.attributes.entries if call.config.attributes is not None else ()
        names = tuple((name, attribute_type(value)) for name, value in entries)
        shapes = (*map(str, call.operands), str(call.result))
        shared = tuple((buffer.use, buffer.alias_of) for buffer in call.buffers)
        groups.setdefault((call.spec.target, call.spec.api_version, shapes, names, shared), []).append(call)
    yield from groups.values()
