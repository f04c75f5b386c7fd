"""Which sharding does JAX refuse, and which one would fit? Sizes, axes of meshes, and devices in its errors.

The messages are those of jax/_src: sharding.py, named_sharding.py, mesh.py, shard_map.py, stages.py, pjit.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from hlo_cli.commands.prints.text_report import around_message, text_report
from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Column, Table, rows_from
from hlo_cli.source import nearest

_NO_DUMP: Final = "JAX checks this before it lowers the program, so no dump exists."


# --- shardings that do not fit an array ---

_GLOBAL: Final = lazy_regex(
    r"(?:global )?size of its dimension (?P<dimension>\d{1,18}) should be divisible by (?P<parts>\d{1,18}), but it is "
    r"equal to (?P<size>\d{1,18})"
)
_TILED: Final = lazy_regex(
    r"array (?:axis|dimension) (?P<dimension>\d{1,18}) is partitioned (?P<parts>\d{1,18}) times, but the dimension "
    r"size is (?P<size>\d{1,18})"
)
_UNEVEN: Final = lazy_regex(
    r"array axis (?P<dimension>\d{1,18}) is partitioned (?P<parts>\d{1,18}) times, but does not evenly divide the "
    r"dimension size (?P<size>\d{1,18})"
)
_MAPPED: Final = lazy_regex(
    r"\b(?P<given>(?:kw)?args)(?P<path>\S*) of shape (?P<shape>\w+\[[\d,]*\])\S*"
    r"(?:,? where [^,]*? is bound to [^,']*?'?s? "
    r"parameter '(?P<name>[^']+)',?"
    r"|,? where [^,]*,)?,? corresponds to in_specs\S* of value (?P<spec>\w*\(.*?\)), which maps array "
    r"axis (?P<dimension>\d{1,18}) "
    r"\(of size (?P<size>\d{1,18})\) to mesh ax[ei]s (?P<axes>\([^)]*\)|'[^']*'|\S+) \(of (?:total )?size "
    r"(?P<parts>\d{1,18})\)"
)
_KEY_PATH: Final = lazy_regex(r"with pytree key path ([^\s,]+(?:\[[^\]]*\])*)")
_DIM_SIZE: Final = lazy_regex(r"dim_size=(?P<size>\d{1,18}) is not divisible by axis_size=(?P<parts>\d{1,18})")
_OTHER: Final = lazy_regex(
    r"(?:of size |size |= ?)?(?P<size>\d{1,18})\)? (?:must be|is not|has to be|should be|not)(?: evenly)? "
    r"divisible by [^\d]{0,80}?(?P<parts>\d{1,18})"
)
_MESH_PAIRS: Final = lazy_regex(r"'(?P<axis>\w+)': (?P<size>\d{1,18})")
_MESH_SHAPE: Final = lazy_regex(
    r"mesh given has shape \((?P<sizes>[\d, ]+)\) with corresponding axis names \((?P<names>[^)]*)\)"
)
_SPEC: Final = lazy_regex(r"(?:PartitionSpec|\bP)\(")
_FULL: Final = lazy_regex(r"(?:full|Got) shape: \((?P<sizes>[\d, ]*)\)")


def indivisible_report(pasted: PastedText) -> Report | None:
    """The report on a dimension that does not divide; None if it has none of its numbers."""
    text = around_message(pasted)
    found = list(_MAPPED.finditer(text))
    patterns = (_GLOBAL, _TILED, _UNEVEN, _DIM_SIZE, _OTHER)
    match = found[0] if found else next((m for each in patterns if (m := each.search(text)) is not None), None)
    if match is None:
        return None
    fields = match.groupdict()
    size, parts = int(fields["size"]), int(fields["parts"])
    if not parts or size % parts == 0:
        return None
    dimension = int(fields["dimension"]) if fields.get("dimension") else None
    mesh = _mesh(text)
    spec = _entries(text, match.start() if found else 0)
    named = _axis_names(fields.get("axes") or "")
    if not named and dimension is not None and dimension < len(spec):
        named = spec[dimension]
    axes = tuple(axis for axis in named if axis in mesh) if mesh else named
    label = (
        f"{fields.get('given')}{fields['path'].rstrip(',')} {fields['name'] or ''}".rstrip()
        if fields.get("shape")
        else ""
    )
    word = "axis" if label else "dimension"
    sizes = _sizes(fields.get("shape") or "", text)
    key_path = _KEY_PATH.search(text)
    where = f"{word} {dimension} ({size:,})" if dimension is not None else f"a dimension of size {size:,}"
    answer = f"{where} is not divisible by {parts:,}{_product(axes, mesh, parts)}"
    return text_report(
        pasted,
        _labeled(answer, f"{label} ({fields['shape']})" if label else key_path[1] if key_path else ""),
        means=tuple(_other_dimensions(sizes, spec, mesh, dimension)),
        tables=(_mapped_table(found),) if len(found) > 1 else (),
        advice=(
            *_divisible_advice(size, parts, axes, mesh, _others(sizes, spec, dimension, parts)),
            *_more_padded(found),
            _NO_DUMP,
        ),
        numbers={"dimension": dimension, "size": size, "parts": parts, "remainder": size % parts},
        notes=[f"the message names {len(found)} arguments; this is the first"] if len(found) > 1 else [],
        next=("hlo help sharding",),
    )


def _labeled(answer: str, label: str) -> str:
    """A sentence with the name of its argument before it, if the message has one."""
    return f"{label}: {answer}" if label else _sentence(answer)


def _sentence(words: str) -> str:
    """Words with a capital letter, unless they begin with the name of an argument."""
    is_name = words.split(" ")[0] not in ("a", "an", "axis", "dimension", "the")
    return words if is_name else words[0].upper() + words[1:]


def _product(axes: Sequence[str], mesh: Mapping[str, int], parts: int) -> str:
    """The axes whose sizes give the number of parts, as the end of a sentence; empty if they do not.

    >>> _product(("a", "b"), {"a": 8, "b": 2}, 16), _product(("a",), {"a": 8}, 8), _product((), {}, 4)
    (' = a 8 × b 2', ' = a', '')
    """
    if not axes or not mesh or prod(mesh[axis] for axis in axes) != parts:
        return ""
    return f" = {axes[0]}" if len(axes) == 1 else f" = {' × '.join(f'{axis} {mesh[axis]}' for axis in axes)}"


_MAPPED_COLUMNS: Final[tuple[Column[re.Match[str]], ...]] = (
    Column("argument", "argument", of=lambda argument: f"{argument['given']}{argument['path'].rstrip(',')}"),
    Column("name", "name", "name", of=lambda argument: argument["name"]),
    Column("shape", "shape", "shape", of=lambda argument: argument["shape"]),
    Column("axis", "axis", "count", of=lambda argument: int(argument["dimension"])),
    Column("size", "size", "count", of=lambda argument: int(argument["size"])),
    Column("parts", "parts", "count", of=lambda argument: int(argument["parts"])),
)


def _mapped_table(found: Sequence[re.Match[str]]) -> Table:
    rows = rows_from(_MAPPED_COLUMNS, found)
    return Table("named_arguments", _MAPPED_COLUMNS, rows, noun="arguments")


def _divisible_advice(
    size: int, parts: int, axes: Sequence[str], mesh: Mapping[str, int], others: Sequence[int] | None
) -> Iterator[str]:
    padded = -(-size // parts) * parts
    fewer = [axis for axis in axes if size % mesh.get(axis, size + 1) == 0] if len(axes) > 1 else []
    words = f"Pad it to {padded:,}"
    if fewer:
        best = max(fewer, key=lambda axis: mesh[axis])
        words += f", or shard it by {best} alone ({mesh[best]} divides {size:,})"
    elif others is None and len(axes) < 2:
        words += ", or shard another dimension"
    elif others:
        words += f", or shard dimension {others[0]} instead, which {parts:,} divides"
    elif others is not None:
        words += ", or leave it whole on each device (None in the spec)"
    yield words + "."


def _others(
    sizes: Sequence[int], spec: Sequence[tuple[str, ...]], bad: int | None, parts: int
) -> tuple[int, ...] | None:
    """The dimensions that the spec does not divide and the number of parts does; None if the text has no sizes."""
    if bad is None or bad >= len(sizes) or not parts:
        return None
    free = (at for at, size in enumerate(sizes) if at != bad and not (at < len(spec) and spec[at]) and not size % parts)
    return tuple(free)


def _more_padded(found: Sequence[re.Match[str]]) -> Iterator[str]:
    """A sentence on each further argument of a shard_map."""
    for match in found[1:]:
        size, parts = int(match["size"]), int(match["parts"])
        if parts and size % parts:
            yield (
                f"Pad axis {match['dimension']} of {match['given']}{match['path'].rstrip(',')} from {size:,} to "
                f"{-(-size // parts) * parts:,}, for {parts:,} = {', '.join(_axis_names(match['axes']))}."
            )


def _other_dimensions(
    sizes: Sequence[int], spec: Sequence[tuple[str, ...]], mesh: Mapping[str, int], bad: int | None
) -> Iterator[str]:
    """A sentence on each other dimension that the same spec divides."""
    for at, axes in enumerate(spec):
        if at == bad or at >= len(sizes) or not axes or any(axis not in mesh for axis in axes):
            continue
        parts = prod(mesh[axis] for axis in axes)
        verb = "is" if sizes[at] % parts == 0 else "is not either"
        yield f"Dimension {at} ({sizes[at]:,}) {verb} divisible, by {' × '.join(axes)} = {parts:,}."


def _mesh(text: str) -> dict[str, int]:
    """The axes of the mesh in a message and their sizes, which are not 0."""
    if (shaped := _MESH_SHAPE.search(text)) is not None:
        names = [name.strip(" '\"") for name in shaped["names"].split(",") if name.strip(" '\"")]
        sizes = [int(size) for size in shaped["sizes"].split(",") if size.strip()]
        return {name: size for name, size in zip(names, sizes, strict=False) if size}
    return {match["axis"]: int(match["size"]) for match in _MESH_PAIRS.finditer(text) if int(match["size"])}


def _axis_names(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"'(\w+)'", text))


def _entries(text: str, start: int) -> list[tuple[str, ...]]:
    """The mesh axes of each dimension in the first PartitionSpec after an offset.

    >>> _entries("spec=PartitionSpec(('a', 'b'), None, 'c')", 0)
    [('a', 'b'), (), ('c',)]
    """
    match = _SPEC.search(text, start)
    if match is None:
        return []
    depth, at, end = 1, match.end(), match.end()
    entries = list[str]()
    while end < len(text) and depth:
        character = text[end]
        depth += (character in "([") - (character in ")]")
        if not depth or (depth == 1 and character == ","):
            entries.append(text[at:end])
            at = end + 1
        end += 1
    return [_axis_names(entry) for entry in entries if entry.strip()]


def _sizes(shape: str, text: str) -> list[int]:
    full = shape[shape.find("[") + 1 : -1] if "[" in shape else (_FULL.search(text) or {"sizes": ""})["sizes"]
    return [int(size) for size in full.split(",") if size.strip()]


_RANK: Final = lazy_regex(
    r"only valid for values of rank (?:at least )?(?P<needed>\d{1,18}), but was applied to a value of "
    r"rank (?P<rank>\d{1,18})"
)

_LONG: Final = lazy_regex(
    r"in_specs\S* is (?:PartitionSpec|P)\(.{0,400}?\) which has length (?P<needed>\d{1,18}), but the passed "
    r"(?P<path>\S{1,200}?),? .{0,400}?has shape (?P<shape>\w+\[[\d,]*\]),? which has rank (?P<rank>\d{1,18})"
)


def sharding_rank_report(pasted: PastedText) -> Report | None:
    """The report on a spec for another rank; None if it has none of its numbers."""
    text = around_message(pasted)
    match = _RANK.search(text) or _LONG.search(text)
    if match is None:
        return None
    needed, rank = int(match["needed"]), int(match["rank"])
    before = match[0] if "path" in match.groupdict() else text[: match.start()]
    entries = _entries(before, max(before.rfind(each) for each in ("PartitionSpec(", "=P(", " P(")))
    surplus = entries[rank:]
    if rank == 0:
        fix = "For a scalar, the spec is P()."
    elif surplus and not any(surplus):
        last = "the last None" if len(surplus) == 1 else f"the last {len(surplus)} None"
        fix = f"Drop {last} from the spec."
    elif surplus:
        axes = ", ".join(axis for entry in surplus for axis in entry)
        fix = (
            f"The spec has {axes} for dimensions that the value lacks: give the value {needed} "
            "dimensions, or drop them."
        )
    else:
        fix = f"Drop {format_count(needed - rank, 'entries')} of the spec, or give the value {needed} dimensions."
    named = match.groupdict()
    subject = f"{named['path']} ({named['shape']})" if named.get("path") else "the value"
    return text_report(
        pasted,
        f"The spec names {format_count(needed, 'dimensions')}, {subject} has {rank:,}",
        advice=(fix, _NO_DUMP),
        numbers={"spec_dimensions": needed, "value_dimensions": rank},
        next=("hlo help sharding",),
    )


# --- axes of meshes ---

_DUPLICATE: Final = lazy_regex(
    r"but (?P<spec>(?:PartitionSpec|P)\(.{0,400}?\)) has duplicate entries for `(?P<axes>[^`]{1,200})`"
)
_NOT_FOUND: Final = lazy_regex(
    r"[Rr]esource axis: (?P<axis>\w{1,80}) of (?P<spec>(?:PartitionSpec|P)\(.{0,400}?\)) is not found in mesh: "
    r"\((?P<names>[^()]{0,400})\)"
)


def mesh_axis_report(pasted: PastedText) -> Report | None:
    """The report on an axis that a spec names twice, or that the mesh lacks; None if it has none of its numbers."""
    text = around_message(pasted)
    return _repeated_axis(pasted, text) or _missing_axis(pasted, text)


def _repeated_axis(pasted: PastedText, text: str) -> Report | None:
    match = _DUPLICATE.search(text)
    if match is None:
        return None
    spec = _entries(match["spec"], 0)
    axis = match["axes"].split(",")[0].strip(" '\"")
    places = [at for at, entry in enumerate(spec) for each in entry if each == axis]
    if not places:
        return None
    unused = [name for name in _mesh(text) if all(name not in entry for entry in spec)]
    where = f"dimensions {' and '.join(map(str, places))}" if len(set(places)) > 1 else f"dimension {places[0]} twice"
    fix = f"Name {axis} once: leave the other dimension None"
    fix += f", or divide it by {unused[0]}." if unused else ", or divide it by another axis of the mesh."
    return text_report(
        pasted,
        f"The spec divides {where} by {axis}; a mesh axis divides one dimension at most",
        means=("Each device has one coordinate along an axis, so it can select one of the parts along one dimension.",),
        advice=(fix, _NO_DUMP),
        numbers={"axis": axis, "dimensions": ", ".join(map(str, places))},
        next=("hlo help sharding",),
    )


def _missing_axis(pasted: PastedText, text: str) -> Report | None:
    match = _NOT_FOUND.search(text)
    if match is None:
        return None
    axis, names = match["axis"], _axis_names(f"'{match['names']}'" if "'" not in match["names"] else match["names"])
    places = [at for at, entry in enumerate(_entries(match["spec"], 0)) if axis in entry]
    where = f" for dimension {places[0]}" if places else ""
    near = nearest(axis, names)
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
    fix = f"Write {near} in the spec" if near else f"Write one of {listed} in the spec" if names else "Name the axes"
    return text_report(
        pasted,
        f"The spec names the axis {axis}{where}, but the mesh has {listed or 'no axes'}",
        advice=(
            (
                f"{fix}, or create the mesh with an axis {axis}: jax.make_mesh(sizes, names). Inside of a library, the "
                "mesh is that of the nearest jax.set_mesh or `with mesh:`."
            ),
            _NO_DUMP,
        ),
        numbers={"axis": axis, "mesh_axes": ", ".join(names)},
        next=("hlo help sharding",),
    )


# --- arguments on other devices, or with another sharding ---

_PLACED: Final = lazy_regex(
    r"(?P<role>argument|ARG_SHARDING|explicit (?:input|output) sharding|(?:with_)?sharding_constraint"
    r"|shard_map|pmap|custom_partitioning|context mesh)(?P<rest>(?:(?!device ids).){0,600}?)(?:with |and )?device ids "
    r"\[(?P<ids>[\d, .]{0,4000})\] on platform (?P<platform>\w+)"
)
_ARGUMENT: Final = lazy_regex(r"^ (?P<name>\S+) of (?P<function>\S+) with shape (?P<shape>\w+\[[^\]]*\])")


def other_devices_report(pasted: PastedText) -> Report | None:
    """The report on arguments on several devices; None if it has none of its numbers."""
    text = around_message(pasted)
    if "incompatible devices for" not in text:
        return None
    found = list(_PLACED.finditer(text[text.index("incompatible devices for") :]))
    if len(found) < 2:
        return None
    subjects = [_placed_words(match) for match in found[:2]]
    sizes = [len(match["ids"].split(",")) for match in found[:2]]
    less = 0 if sizes[0] <= sizes[1] else 1
    few, many = subjects[less], subjects[1 - less]
    fix = (
        f"Place {few} on the same devices: jax.device_put({few}, NamedSharding(mesh, P(...))), with the mesh of "
        f"{many}; P() copies it to each device."
        if sizes[0] != sizes[1]
        else "Use one mesh for both: jax.device_put one of them to the sharding of the other."
    )
    columns: tuple[Column[re.Match[str]], ...] = (
        Column("argument", "argument", of=_placed_words),
        Column(
            "shape",
            "shape",
            "shape",
            of=lambda placed: named["shape"] if (named := _ARGUMENT.match(placed["rest"])) else None,
        ),
        Column("devices", "devices", "count", of=lambda placed: len(placed["ids"].split(","))),
        Column("ids", "device ids", of=lambda placed: _ranges(placed["ids"])),
        Column("platform", "platform", of=lambda placed: placed["platform"]),
    )
    placed = [f"{name} is on {_devices_words(match)}" for name, match in zip(subjects, found, strict=False)]
    return text_report(
        pasted,
        f"{_sentence(placed[0])}, {placed[1]}: a program runs on one set of devices",
        tables=(Table("placed_arguments", columns, rows_from(columns, found), noun="arguments"),),
        advice=(fix, _NO_DUMP),
        numbers={"arguments": len(found), "devices": max(sizes)},
        next=("hlo help sharding",),
    )


def _placed_words(match: re.Match[str]) -> str:
    """What is placed: the name of an argument, or where a sharding was given."""
    named = _ARGUMENT.match(match["rest"])
    if named is not None:
        return named["name"]
    return "an argument" if match["role"] == "ARG_SHARDING" else f"the {match['role'].replace('_', ' ')}"


def _devices_words(match: re.Match[str]) -> str:
    count = len(match["ids"].split(","))
    noun = f"{match['platform']} {'device' if count == 1 else 'devices'} {_ranges(match['ids'])}"
    return noun if count == 1 else f"{count} {noun}"


def _ranges(ids: str) -> str:
    """Numbers of devices with consecutive ones as a range.

    >>> _ranges("0, 1, 2, 3, 8"), _ranges("0, 1, ... 7")
    ('0-3, 8', '0, 1, ... 7')
    """
    if "..." in ids:
        return ids.strip()
    numbers = sorted(int(each) for each in ids.split(",") if each.strip())
    spans = list[list[int]]()
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


_DIFFERENT: Final = lazy_regex(
    r"(?:[Ss]harding passed to (?P<function>\w+) does not match the sharding on the respective arg\. Got \w+ "
    r"sharding: (?P<wanted>.{1,1000}?), arg sharding: (?P<given>.{1,1000}?) for arg (?:type|shape|aval): "
    r"(?P<aval>\w+\[[^\]]{0,200}\])"
    r"|in_specs passed to shard_map: (?P<wanted_spec>.{1,400}?) does not match the specs of the input: "
    r"(?P<given_spec>.{1,400}?) for arg: (?P<argument>\w+\[[^\]]{0,200}\]))"
)

_AXES: Final = lazy_regex(r"@(?:\w+|\([^()]*\))")
"""Mesh axes in a type, which JAX prints after the size that they divide."""


def other_sharding_report(pasted: PastedText) -> Report | None:
    """The report on an argument or result with another sharding; None if it has none of its numbers."""
    text = around_message(pasted)
    match = _DIFFERENT.search(text)
    if match is None:
        return _not_replicated(pasted, text)
    wanted, given = match["wanted"] or match["wanted_spec"], match["given"] or match["given_spec"]
    aval = match["aval"] or match["argument"]
    function = match["function"] or "shard_map"
    specs = [_entries(each, 0) for each in (wanted, given)]
    words = [" and ".join(_spec_words(spec)) or "replicated" for spec in specs]
    return text_report(
        pasted,
        f"The argument {_AXES.sub('', aval)} is {words[1]}, but {function} expects it {words[0]}",
        advice=(
            (
                f"Reshard it first (jax.reshard(x, spec) or jax.device_put(x, sharding)), or drop "
                f"{'in_specs' if function == 'shard_map' else 'in_shardings'}: {function} then takes the sharding of "
                "the argument."
            ),
            _NO_DUMP,
        ),
        numbers={"expected": words[0], "actual": words[1]},
        next=("hlo help sharding",),
    )


def _spec_words(spec: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The dimensions that a spec divides, and by which axes."""
    for at, axes in enumerate(spec):
        if axes:
            yield f"divided along dimension {at} by {' × '.join(axes)}"


_REPLICATED: Final = lazy_regex(
    r"shard_map applied to the function '(?P<function>[^']{1,200})' was given out_specs which require replication "
    r"which can't be statically inferred given the mesh"
)
_RESULT: Final = lazy_regex(
    r"out_specs(?P<place>\S*) is (?P<spec>(?:PartitionSpec|P)\(.{0,400}?\)) which implies that the corresponding "
    r"output value is (?:only varying across mesh axes \{[^{}]{0,200}\} and not (?P<new>\{[^{}]{1,200}\})"
    r"|replicated across mesh ax[ei]s:? (?P<old>\{[^{}]{1,200}\}|'[^']{1,80}'))"
)


def _not_replicated(pasted: PastedText, text: str) -> Report | None:
    match = _REPLICATED.search(text)
    if match is None:
        return None
    mesh = _mesh(text)
    result = _RESULT.search(text, match.end())
    axes = tuple(re.findall(r"\w+", result["new"] or result["old"])) if result else ()
    spec = f"out_specs{result['place']} = {result['spec']}" if result else "out_specs"
    across = f" along {', '.join(f'{axis} ({mesh[axis]} devices)' if axis in mesh else axis for axis in axes)}"
    return text_report(
        pasted,
        f"{match['function']}: {spec} means that all devices{across if axes else ''} return the same value, which JAX "
        "cannot prove",
        advice=(
            (
                f"If each device has a part of a sum, return jax.lax.psum(y, {axes[0] if axes else 'axis'!r}); if each "
                f"has another piece, put {axes[0] if axes else 'the axis'} into out_specs; if the values are equal, "
                "set check_vma=False (check_rep=False before JAX 0.7)."
            ),
            _NO_DUMP,
        ),
        numbers={"function": match["function"], "axes": ", ".join(axes) or None},
        next=("hlo help sharding",),
    )
