"""Modules of any size in one respect: arguments, elements, computations, users, chains."""

from __future__ import annotations

from collections.abc import Callable

_ARRAY = "f32[64,128]{1,0}"


def arguments(count: int) -> str:
    """So many arguments, each added once."""
    lines = [f"p{i} = {_ARRAY} parameter({i})" for i in range(count)]
    lines += [f"a{i} = {_ARRAY} add({f'a{i - 1}' if i > 1 else 'p0'}, p{i})" for i in range(1, count)]
    return _module(lines)


def donated(count: int) -> str:
    """So many arguments, each overwritten by a result."""
    aliases = ", ".join(f"{{{i}}}: ({i}, {{}}, may-alias)" for i in range(count))
    lines = [f"p{i} = {_ARRAY} parameter({i})" for i in range(count)]
    lines += [f"n{i} = {_ARRAY} negate(p{i})" for i in range(count)]
    return _module([*lines, _tuple("n", count)], header=f", input_output_alias={{{aliases}}}")


def elements(count: int) -> str:
    """A tuple of so many elements, taken apart and put together."""
    lines = [f"p = {_tuple_shape(count)} parameter(0)"]
    lines += [f"g{i} = {_ARRAY} get-tuple-element(p), index={i}" for i in range(count)]
    return _module([*lines, _tuple("g", count)])


def computations(count: int) -> str:
    """So many fusions, one after the other."""
    before = "".join(
        f"c{i} {{ x{i} = {_ARRAY} parameter(0)  ROOT r{i} = {_ARRAY} negate(x{i}) }}\n" for i in range(count)
    )
    lines = [f"a{i} = {_ARRAY} fusion({f'a{i - 1}' if i else 'p'}), kind=kLoop, calls=c{i}" for i in range(count)]
    return _module([f"p = {_ARRAY} parameter(0)", *lines], before=before)


def nested(count: int) -> str:
    """Calls inside of each other, so many deep."""
    before = f"c0 {{ x0 = {_ARRAY} parameter(0)  ROOT r0 = {_ARRAY} negate(x0) }}\n" + "".join(
        f"c{i} {{ x{i} = {_ARRAY} parameter(0)  ROOT r{i} = {_ARRAY} call(x{i}), to_apply=c{i - 1} }}\n"
        for i in range(1, count)
    )
    return _module([f"p = {_ARRAY} parameter(0)", f"a = {_ARRAY} call(p), to_apply=c{count - 1}"], before=before)


def branches(count: int) -> str:
    """A conditional with so many branches."""
    before = "".join(
        f"b{i} {{ x{i} = {_ARRAY} parameter(0)  ROOT r{i} = {_ARRAY} negate(x{i}) }}\n" for i in range(count)
    )
    given, named = ", ".join(["p"] * count), ", ".join(f"b{i}" for i in range(count))
    choice = f"c = {_ARRAY} conditional(k, {given}), branch_computations={{{named}}}"
    return _module([f"p = {_ARRAY} parameter(0)", "k = s32[] parameter(1)", choice], before=before)


def users(count: int) -> str:
    """So many instructions that take one value."""
    lines = [f"n{i} = {_ARRAY} negate(p)" for i in range(count)]
    return _module([f"p = {_ARRAY} parameter(0)", *lines, _tuple("n", count)])


def chain(count: int) -> str:
    """So many instructions, one after the other."""
    lines = [f"n{i} = {_ARRAY} negate({f'n{i - 1}' if i else 'p'})" for i in range(count)]
    return _module([f"p = {_ARRAY} parameter(0)", *lines])


def ordered(count: int) -> str:
    """So many instructions that one control edge each puts in order."""
    lines = [f"n{i} = {_ARRAY} negate(p){f', control-predecessors={{n{i - 1}}}' if i else ''}" for i in range(count)]
    return _module([f"p = {_ARRAY} parameter(0)", *lines, _tuple("n", count)])


def in_flight(count: int) -> str:
    """So many copies that are all under way at once, and as much work."""
    lines = [f"s{i} = ({_ARRAY}, {_ARRAY}, u32[]) copy-start(p)" for i in range(count)]
    lines += [f"w{i} = {_ARRAY} negate(p)" for i in range(count)]
    lines += [f"d{i} = {_ARRAY} copy-done(s{i})" for i in range(count)]
    return _module([f"p = {_ARRAY} parameter(0)", *lines, _tuple("d", count)])


def updated(count: int) -> str:
    """One asynchronous operation with so many updates."""
    shape = f"(({_ARRAY}), {_ARRAY}, u32[])"
    lines = [f"u{i} = {shape} negate-update({f'u{i - 1}' if i else 's'})" for i in range(count)]
    return _module(
        [
            f"p = {_ARRAY} parameter(0)",
            f"s = {shape} negate-start(p)",
            *lines,
            f"d = {_ARRAY} negate-done(u{count - 1})",
        ]
    )


def sent(count: int) -> str:
    """So many transfers to the host, one after the other."""
    lines = [f"p = {_ARRAY} parameter(0)", "k0 = token[] after-all()"]
    for i in range(count):
        says = f"channel_id={i + 1}, is_host_transfer=true"
        lines.append(f"s{i} = ({_ARRAY}, u32[], token[]) send(p, k{i}), {says}")
        lines.append(f"k{i + 1} = token[] send-done(s{i}), {says}")
    return _module([*lines, "t = () tuple()"])


LARGE: tuple[Callable[[int], str], ...] = (
    *(arguments, donated, elements, computations, nested, branches, users, chain, ordered, in_flight, updated, sent),
)
"""What may be large."""


def _module(lines: list[str], *, before: str = "", header: str = "") -> str:
    body = "\n".join(f"  {'ROOT ' if line is lines[-1] else ''}{line}" for line in lines)
    return f"HloModule m, is_scheduled=true{header}\n{before}ENTRY e {{\n{body}\n}}\n"


def _tuple_shape(count: int) -> str:
    return f"({', '.join([_ARRAY] * count)})"


def _tuple(prefix: str, count: int) -> str:
    return f"t = {_tuple_shape(count)} tuple({', '.join(f'{prefix}{i}' for i in range(count))})"
