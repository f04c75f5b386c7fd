"""Replica groups or source–target pairs in place of a module: the groups, their sizes, and their strides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hlo_cli.inputs.pasted.envelopes import PastedText
from hlo_cli.ir.attributes.sharding import CollectiveDeviceList, IotaReplicaGroupList, MeshAxesReplicaGroupList
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_count
from hlo_cli.report.report import Report
from hlo_cli.report.table import Cell, Column, Table
from hlo_cli.source import Diagnostic, HloError
from hlo_cli.syntax.attribute_table import Kind
from hlo_cli.syntax.values.attribute_values import read_value_text

_PREFIX = lazy_regex(r"\s*+(replica_groups|source_target_pairs)\s*+=\s*+")
_NAMED = lazy_regex(r"\b(?:replica_groups|source_target_pairs)\s*+=")
_ATTRIBUTE = lazy_regex(r",\s*([a-z]\w*)=([^\s,{}]*(?:\{[^{}]*\})?)")
_GROUPS = (
    Column("group", "group", "name"),
    Column("size", "devices", "count"),
    Column("stride", "stride", "count"),
    Column("ids", "ids"),
)
_PAIRS = (Column("source", "source", "name"), Column("target", "target", "name"), Column("distance", "distance"))

Groups = Sequence[Sequence[int]]
Pairs = tuple[tuple[int, int], ...]


def report_of(pasted: PastedText) -> Report:
    """The report on groups of devices; HloError if they cannot be read."""
    text = _groups_first(pasted.text.strip().rstrip(",;."))
    prefix = _PREFIX.match(text)
    text = text[prefix.end() :] if prefix else text
    attributes = dict(_ATTRIBUTE.findall(text))
    text = _ATTRIBUTE.sub("", text).strip()
    if prefix is not None and prefix[1] == "source_target_pairs":
        return _of_pairs(_read(text), pasted.name)
    value = read_value_text(Kind.REPLICA_GROUPS, text)
    if not isinstance(value, CollectiveDeviceList | IotaReplicaGroupList | MeshAxesReplicaGroupList):
        raise HloError(f"cannot read the replica groups {text[:80]}", hint="groups are such as {{0,1},{2,3}}")
    if isinstance(value, CollectiveDeviceList) and not value.listed:
        return Report("parse", "One group of all devices", numbers={"groups": 1, "devices": None})
    report = _of_groups(str(value), value.groups(0), pasted.name)
    return replace(report, notes=(*_notes_on(attributes), *report.notes))


def _groups_first(text: str) -> str:
    """The attributes with the groups or pairs at the beginning.

    >>> _groups_first("channel_id=1, replica_groups={{0,1}}"), _groups_first("{{0,1}}")
    ('replica_groups={{0,1}}, channel_id=1', '{{0,1}}')
    """
    place = _NAMED.search(text)
    if place is None or not text[: place.start()].strip():
        return text
    return f"{text[place.start() :]}, {text[: place.start()].strip().rstrip(',')}"


def _notes_on(attributes: Mapping[str, str]) -> Iterator[Diagnostic]:
    """What the ids are, by the attributes next to the groups."""
    if attributes.get("use_global_device_ids") == "true":
        yield Diagnostic("note", "ids are global device ids (use_global_device_ids=true)")
    elif "channel_id" in attributes:
        yield Diagnostic("note", "ids are replica ids: a channel_id without use_global_device_ids crosses partitions")


def _read(text: str) -> Groups:
    value = read_value_text(Kind.REPLICA_GROUPS, text)
    if not isinstance(value, CollectiveDeviceList) or any(len(pair) != 2 for pair in value.listed):
        raise HloError(f"cannot read the pairs {text[:80]}", hint="pairs are such as {{0,1},{1,0}}")
    return value.listed


def _of_groups(text: str, groups: Groups, name: str) -> Report:
    sizes = sorted({len(group) for group in groups})
    devices = [device for group in groups for device in group]
    strides = {stride_of(group) for group in groups if len(group) > 1}
    size = format_count(sizes[0], "devices") if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,} devices"
    answer = f"{format_count(len(groups), 'groups')} of {size}, {_arrangement(strides)}"
    notes = []
    if len(set(devices)) < len(devices):
        twice = next(device for device, times in Counter(devices).items() if times > 1)
        notes.append(Diagnostic("warning", f"device {twice} is in more than one group, which XLA rejects"))
    rows = tuple((str(at), len(group), stride_of(group), _listed(group)) for at, group in enumerate(groups))
    numbers: dict[str, Cell] = {"replica_groups": text, "groups": len(groups), "devices": len(set(devices))}
    if (found := _axes_of(tuple(map(tuple, groups)), ())) is not None:
        mesh, axes = found
        notes.append(Diagnostic("note", f"in a row-major mesh {mesh}, these are the groups along {axes}"))
        numbers |= {"mesh": mesh, "axis": axes}
    return Report(
        "parse",
        answer,
        numbers={**numbers, "group_sizes": sizes[-1]},
        parts=(Table("groups", _GROUPS, rows, noun="groups", limit=16),),
        next=("hlo help sharding",),
        notes=tuple(notes),
        input={"path": name},
    )


def stride_of(group: Sequence[int]) -> int | None:
    """The constant distance of neighbors in a group; None if it is not constant.

    >>> stride_of((0, 4, 8)), stride_of((0, 1, 4, 5))
    (4, None)
    """
    steps = {after - before for before, after in pairwise(group)}
    return steps.pop() if len(steps) == 1 else None


def _arrangement(strides: set[int | None]) -> str:
    if not strides:
        return "so no data moves"
    if len(strides) > 1 or None in strides:
        return "not evenly spaced"
    (stride,) = strides
    return "contiguous" if stride == 1 else f"strided by {stride}"


def _axes_of(groups: tuple[tuple[int, ...], ...], pairs: Pairs) -> tuple[str, str] | None:
    """The coarsest mesh of several axes that explains groups or pairs, and their axes; None if there is none."""
    from hlo_cli.analysis.sharding.meshes import axes_of_groups, axes_of_pairs, axes_text, inferred_mesh, mesh_text

    count = 1 + max((device for group in (*groups, *pairs) for device in group), default=0)
    known = inferred_mesh([groups] if groups else [], [pairs] if pairs else [], count)
    if known is None or len(known.mesh.axes) < 2:
        return None
    if groups:
        axes = axes_of_groups(groups, known.mesh)
        return None if axes is None else (mesh_text(known.mesh), axes_text(axes).replace(",", " and "))
    shifts = axes_of_pairs(pairs, known.mesh)
    return None if not shifts else (mesh_text(known.mesh), " and ".join(map(str, shifts)))


def _listed(ids: Sequence[int]) -> str:
    most = 32
    return ", ".join(map(str, ids[:most])) + (f", \N{HORIZONTAL ELLIPSIS} {ids[-1]}" if len(ids) > most else "")


def _of_pairs(pairs: Groups, name: str) -> Report:
    distances = {target - source for source, target in pairs}
    devices = {device for pair in pairs for device in pair}
    targets = [target for _, target in pairs]
    forward = next(iter(distances)) if len(distances) == 1 else None
    words = "all by the same distance" if forward is not None else "by different distances"
    cycle = len(distances) == 2 and len({distance % len(devices) for distance in distances}) == 1
    shift = next(iter(distances)) % len(devices) if cycle else 0
    words = f"a ring of {format_count(len(devices), 'devices')} shifted by {shift}" if cycle else words
    idle = sorted(devices - set(targets))
    notes = [Diagnostic("note", f"devices that receive nothing get zeros: {_listed(idle)}")] if idle else []
    if len(set(targets)) < len(targets):
        notes.append(Diagnostic("warning", "a device is the target of more than one pair, which XLA rejects"))
    if pairs and (found := _axes_of((), tuple((source, target) for source, target in pairs))) is not None:
        notes.append(Diagnostic("note", f"in a row-major mesh {found[0]}, data moves along {found[1]}"))
    rows = tuple((str(source), str(target), f"{target - source:+}") for source, target in pairs)
    return Report(
        "parse",
        f"{format_count(len(pairs), 'transfers')} between {format_count(len(devices), 'devices')}, {words}",
        numbers={"pairs": len(pairs), "devices": len(devices)},
        parts=(Table("pairs", _PAIRS, rows, noun="pairs", limit=16),),
        next=("hlo help sharding",),
        notes=tuple(notes),
        input={"path": name},
    )
