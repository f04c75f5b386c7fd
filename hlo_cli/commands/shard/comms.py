"""Which bytes travel along which axis of the mesh, and how long do they take?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeVar

from hlo_cli.analysis.hardware.chip_specs import ChipSpec
from hlo_cli.analysis.hardware.time_model import Estimate
from hlo_cli.analysis.origin.origins import Keys
from hlo_cli.analysis.partly_known import AtLeast
from hlo_cli.analysis.query.fields import NO_AXES, axis_of, fields_of, payload_bytes_of, rounded, wire_bytes_of
from hlo_cli.analysis.query.where import Predicate, Reader, predicate
from hlo_cli.analysis.sharding.collectives import (
    ONE_DEVICE,
    Algorithm,
    Collective,
    CollectiveTime,
    collective_time,
    collectives_of,
    groups_text,
    is_measured,
    malformed_collectives,
    mesh_of,
    padding_bytes,
    torus_dimensions,
)
from hlo_cli.analysis.sharding.entry_arrays import is_partitioned
from hlo_cli.analysis.sharding.meshes import KnownMesh, axes_text, devices_of, mesh_text
from hlo_cli.analysis.sharding.partitioning import groups_in_words, predicted_partitioning
from hlo_cli.commands.modules.by import Group, KeyCost, group_by, key_columns, keys_for
from hlo_cli.commands.modules.instruction_tables import chosen as chosen_among
from hlo_cli.commands.modules.loading import Loaded, input_facts, program_notes
from hlo_cli.commands.options.chips import throughput_for, time_model, time_notes
from hlo_cli.commands.options.declaring import cause_of
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.attributes.sharding import AxisRef, Mesh
from hlo_cli.ir.instruction import Instruction
from hlo_cli.ir.module import Module
from hlo_cli.lazy_regex import lazy_regex
from hlo_cli.report.numbers import format_bytes, format_count, format_seconds_range
from hlo_cli.report.report import Report
from hlo_cli.report.table import UNKNOWN, Cell, Column, Table, columns_of_part, rows_from_tuples
from hlo_cli.source import Diagnostic
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES

if TYPE_CHECKING:
    from hlo_cli.commands.shard.options import ShardOptions
# --- bytes and seconds ---


_Number = TypeVar("_Number", int, float, Fraction, "Estimate")


@dataclass(frozen=True, slots=True)
class Pricing:
    """How bytes and times are computed: the algorithm, and the chip if there is one."""

    algorithm: Algorithm
    chip: ChipSpec | None = None

    def time(self, collective: Collective) -> CollectiveTime | None:
        """The duration of one run; None without a chip, or if it is unknown."""
        if self.chip is None:
            return None

        return collective_time(collective, self.chip)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The sums over some collectives in one execution of the module; None if a trip count or a group is unknown.

    `known_wire_bytes` leaves out what is unknown; `run_wire_bytes` counts each collective once.
    """

    sites: int
    async_sites: int
    runs: int | None
    payload_bytes: int | None
    wire_bytes: Fraction | None
    known_wire_bytes: Fraction
    run_wire_bytes: Fraction
    devices: int | None
    estimate: Estimate | None
    at_least_seconds: float | None

    @property
    def seconds(self) -> float | None:
        """The estimated time."""
        return None if self.estimate is None else self.estimate.seconds

    @property
    def times(self) -> tuple[float | None, ...]:
        """The estimated time, the ends of its band, and the lower bound."""
        estimate = self.estimate
        band = (None, None, None) if estimate is None else (estimate.seconds, estimate.low, estimate.high)
        return (*band, self.at_least_seconds)

    @property
    def named_times(self) -> Mapping[str, float | None]:
        """The same times with the names of their columns."""
        return dict(zip(("seconds", "low_seconds", "high_seconds", "at_least_seconds"), self.times, strict=True))


def _traffic_of(collectives: Iterable[Collective], pricing: Pricing) -> Traffic:
    """The sums over collectives, each with its runs."""
    group = tuple(collectives)
    runs = [collective.runs.known for collective in group]
    payloads = [collective.payload_bytes for collective in group]
    wires = [collective.wire(pricing.algorithm) for collective in group]
    times = [pricing.time(collective) for collective in group]
    counts = {collective.devices for collective in group}
    return Traffic(
        sites=len(group),
        async_sites=sum(collective.is_async for collective in group),
        runs=None if None in runs else sum(collective for collective in runs if collective is not None),
        payload_bytes=_sum_of_runs(payloads, runs),
        wire_bytes=_sum_of_runs(wires, runs),
        known_wire_bytes=sum(
            (w * r for w, r in zip(wires, runs, strict=True) if w is not None and r is not None), Fraction(0)
        ),
        run_wire_bytes=sum((wire for wire in wires if wire is not None), Fraction(0)),
        devices=counts.pop() if len(counts) == 1 else None,
        estimate=_sum_of_runs([None if time is None else time.estimate for time in times], runs),
        at_least_seconds=_sum_of_runs([None if time is None else time.at_least_seconds for time in times], runs),
    )


def _sum_of_runs(values: Sequence[_Number | None], runs: Sequence[int | None]) -> _Number | None:
    """The sum of values times runs; None if any is unknown."""
    total: _Number | None = None
    for value, times in zip(values, runs, strict=True):
        if value is None or times is None:
            return None
        # The first value begins the sum, as an estimate cannot be added to 0.
        total = value * times if total is None else total + value * times
    return total


def _time_remarks(chip: ChipSpec, module: Module) -> Iterator[Diagnostic]:
    """How times are estimated on a chip."""

    dimensions = torus_dimensions(chip)
    if chip.links is None:
        words = f"the bandwidth of the links of {chip.chip} is unknown"
    elif is_measured(chip):
        words = "times are interpolated from measured collectives of the same kind, within one host or NVLink domain"
    elif dimensions is not None:
        words = (
            f"times are without latency; an axis has the links of 1 of {dimensions} dimensions of the torus, as a ring"
        )
    elif chip.cores:
        words = "times are those of h100, scaled to the bandwidth of the links"
    else:
        words = "times are lower bounds: without latency, over all links"
    yield Diagnostic("note", words)
    yield from time_notes(chip, module)


# --- tables ---


_OF_SEVERAL: Final = ("sites", "async_sites")
"""Columns that are the same in each row of a single collective."""


def _kinds_table(collectives: Sequence[Collective], pricing: Pricing) -> Table:
    """One row for each axis, kind, and group size; those of unknown trip count apart, and most bytes first.

    Groups that no axes make have a row each.
    """
    rows_of: dict[tuple[str, str, int | None, bool, str | None], list[Collective]] = {}
    for collective in collectives:
        is_known = collective.runs.known is not None and collective.groups is not None
        # Along axes the groups follow from the axis; without, they are all that tells collectives apart.
        groups = groups_text(collective) if collective.axis is None else None
        rows_of.setdefault((axis_of(collective), collective.kind, collective.devices, is_known, groups), []).append(
            collective
        )
    rows = [
        (_traffic_of(members, pricing), axis, kind, groups) for (axis, kind, _, _, groups), members in rows_of.items()
    ]
    rows.sort(key=lambda row: (*_rank_of_traffic(row[0]), row[1], row[2]))
    has_groups = any(groups is not None for *_, groups in rows)
    columns: tuple[Column[Traffic, str, str, str | None], ...] = (
        Column("axis", "axis", of=lambda traffic, axis, kind, groups: axis),
        Column("kind", "collective", "opcode", of=lambda traffic, axis, kind, groups: kind),
        *columns_of_part(
            _traffic_columns([row[0] for row in rows], pricing), lambda traffic, axis, kind, groups: traffic
        ),
        Column(
            "groups",
            "groups",
            person=has_groups,
            machine=False,
            of=lambda traffic, axis, kind, groups: groups,
        ),
    )
    return Table("collectives", columns, rows_from_tuples(columns, rows), noun="groups of collectives")


def _axes_table(collectives: Sequence[Collective], pricing: Pricing) -> Table:
    """One row for each axis, or set of axes."""
    groups: dict[str, list[Collective]] = {}
    for collective in collectives:
        groups.setdefault(axis_of(collective), []).append(collective)
    rows = [(_traffic_of(members, pricing), axis) for axis, members in groups.items()]
    rows.sort(key=lambda row: (*_rank_of_traffic(row[0]), row[1]))
    columns: tuple[Column[Traffic, str], ...] = (
        Column("axis", "axis", of=lambda traffic, axis: axis),
        *columns_of_part(_traffic_columns([traffic for traffic, _ in rows], pricing), lambda traffic, axis: traffic),
    )
    return Table("axes", columns, rows_from_tuples(columns, rows), noun="axes")


def causes_table(collectives: Sequence[Collective], keys: Keys, pricing: Pricing) -> Table:
    """One row for each source line, scope, argument, or pass."""

    groups = group_by(collectives, lambda each: keys.of(each.caller))
    sorted_groups = [(_traffic_of(group.members, pricing), group) for group in groups]
    sorted_groups.sort(key=lambda row: (*_rank_of_traffic(row[0]), row[1].key))

    def key(traffic: Traffic, group: Group[Collective]) -> KeyCost:
        inferred = _traffic_of(group.inferred, pricing)
        return KeyCost(group, rounded(traffic.known_wire_bytes), rounded(inferred.known_wire_bytes))

    has_inferred = any(group.inferred for group in groups)
    columns: tuple[Column[Traffic, Group[Collective]], ...] = (
        *columns_of_part(
            _traffic_columns([traffic for traffic, _ in sorted_groups], pricing), lambda traffic, group: traffic
        ),
        Column("axes", "axes", of=lambda traffic, group: ", ".join(sorted({axis_of(each) for each in group.members}))),
        *columns_of_part(key_columns(keys.by, "wire_bytes", groups, has_inferred=has_inferred), key),
    )
    rows = rows_from_tuples(columns, sorted_groups)
    return Table(f"{keys.by}s" if keys.by != "pass" else "passes", columns, rows, noun="rows")


def _instructions_table(collectives: Sequence[Collective], module: Module, pricing: Pricing) -> Table:
    """One row for each collective, with its groups, its op_name, and its source line."""
    traffics = [(_traffic_of((collective,), pricing), collective) for collective in collectives]
    traffics.sort(key=lambda row: (*_rank_of_traffic(row[0]), row[1].instruction.name))
    has_branch = any(collective.runs.in_branch for collective in collectives)
    columns: tuple[Column[Traffic, Collective], ...] = (
        Column("axis", "axis", of=lambda traffic, collective: axis_of(collective)),
        Column("kind", "collective", "opcode", of=lambda traffic, collective: collective.kind),
        *columns_of_part(
            [each for each in _traffic_columns([t for t, _ in traffics], pricing) if each.name not in _OF_SEVERAL],
            lambda traffic, collective: traffic,
        ),
        Column("async", "async", "flag", from_width=120, of=lambda traffic, collective: collective.is_async),
        Column("branch", "branch", "flag", person=has_branch, from_width=120,
               of=lambda traffic, collective: collective.runs.in_branch),
        Column("shift", "shift", from_width=120, person=any(collective.shifts for collective in collectives),
               of=lambda traffic, collective: ", ".join(map(str, collective.shifts)) or None),
        Column("name", "name", "name", role="name", of=lambda traffic, collective: collective.instruction.name),
        Column("caller", "caller", "name", person=False, of=lambda traffic, collective: collective.caller.name),
        Column("source", "source", "source", rank=5, of=lambda traffic, collective: _source(collective, module)),
        Column("op_name", "op_name", "op_name", of=lambda traffic, collective: _op_name(collective)),
        Column("groups", "groups", from_width=200, of=lambda traffic, collective: groups_text(collective)),
    )  # fmt: skip
    rows = rows_from_tuples(columns, traffics)
    return Table("instructions", columns, rows, noun="collectives")


def _op_name(collective: Collective) -> str | None:
    return collective.instruction.metadata.op_name or collective.caller.metadata.op_name or None


def _source(collective: Collective, module: Module) -> str | None:
    location = module.location(collective.instruction) or module.location(collective.caller)
    return None if location is None else str(location)


def _traffic_columns(traffics: Sequence[Traffic], pricing: Pricing) -> tuple[Column[Traffic], ...]:
    """Numbers, bytes, and times; bytes of a single run are shown if trip counts are unknown."""
    has_unknown = any(each.wire_bytes is None for each in traffics)
    has_async = any(each.async_sites for each in traffics)
    times: tuple[Column[Traffic], ...] = (
        Column("seconds", "est.", "seconds", total="sum", of=lambda traffic: _known(traffic.times[0])),
        Column("low_seconds", "low", "seconds", total="sum", person=False, of=lambda traffic: _known(traffic.times[1])),
        Column("high_seconds", "high", "seconds", total="sum", person=False,
               of=lambda traffic: _known(traffic.times[2])),
        Column("at_least_seconds", "at least", "seconds", total="sum", person=False,
               of=lambda traffic: _known(traffic.times[3])),
    )  # fmt: skip
    return (
        Column("sites", "sites", "count", total="sum", of=lambda traffic: traffic.sites),
        Column("async_sites", "async", "count", total="sum", person=has_async, from_width=120,
               of=lambda traffic: traffic.async_sites),
        Column("runs", "runs", "count", total="sum", of=lambda traffic: _known(traffic.runs)),
        Column("payload_bytes", "payload", "bytes", total="sum", rank=4,
               of=lambda traffic: _known(traffic.payload_bytes)),
        Column("wire_bytes", "sent", "bytes", total="sum",
               of=lambda traffic: UNKNOWN if traffic.wire_bytes is None else rounded(traffic.wire_bytes)),
        Column("run_wire_bytes", "sent per run", "bytes", total="sum", person=has_unknown,
               of=lambda traffic: rounded(traffic.run_wire_bytes)),
        *(times if pricing.chip is not None else ()),
        Column("devices", "n", "count", of=lambda traffic: traffic.devices),
    )  # fmt: skip


def _known(value: float | None) -> Cell:
    return UNKNOWN if value is None else value


def _rank_of_traffic(traffic: Traffic) -> tuple[bool, Fraction, Fraction]:
    """Known sums first, most bytes first."""
    # An unknown sum may be the largest, but nothing says so; what is known can be acted on.
    return traffic.wire_bytes is None, -traffic.known_wire_bytes, -traffic.run_wire_bytes


# --- --comms ---
# `hlo shard DUMP --comms`: collectives by mesh axis, with the bytes that a device sends.


_MAX_AXES: Final = 3
"""The number of axes in the answer before the rest is summed up."""
_MIN_SHARE: Final = Fraction(1, 100)
"""The smallest share of the bytes that the answer names."""
_MANUAL_AXES: Final = lazy_regex(r"#sdy<manual_axes\{([^{}]*+)\}>")
"""The manual axes of a shard_map, in its frontend_attributes before partitioning."""
_FOOTNOTES: Final[dict[Algorithm, str]] = {
    "ring": "sent: from one device, in a bandwidth-optimal ring; see --algorithm",
    "bidirectional": "sent: over one link in one direction, in a ring with data both ways",
    "oneshot": "sent: between one device and all others at once",
}


def report_of_comms(loaded: Loaded, options: ShardOptions, argument: str) -> Report:
    """The collectives of a module, by axis and kind or by another grouping."""
    module = loaded.module
    mesh = mesh_of(module, options.given_mesh)
    every = collectives_of(module, None if mesh is None else mesh.mesh)
    test = None if options.where is None else _collectives_where(options.where, module)
    selected, skipped = chosen_among(test, every, "collectives")
    chip = throughput_for(loaded.input, options.chip, options.chip_file)
    pricing = Pricing(options.algorithm, chip)
    total = _traffic_of(selected, pricing)
    table = replace(_comms_table(loaded, options, selected, pricing), footnote=_footnote(selected, options.algorithm))
    devices = devices_of(module)
    report = Report(
        "shard",
        _comms_answer(selected, pricing),
        version=1,
        numbers={
            "devices": devices.count,
            "mesh": None if mesh is None else mesh_text(mesh.mesh),
            "mesh_origin": None if mesh is None else mesh.origin,
            "collectives": total.sites,
            "runs": total.runs,
            "payload_bytes": total.payload_bytes,
            "wire_bytes": None if total.wire_bytes is None else rounded(total.wire_bytes),
            "known_wire_bytes": rounded(total.known_wire_bytes),
            "algorithm": options.algorithm,
            **({} if chip is None else {**total.named_times, "model": time_model(chip)}),
        },
        parts=(table,),
        next=_next_commands(argument, selected, options),
        notes=(
            *_comms_notes(module, selected, mesh),
            *(() if chip is None or not selected else _time_remarks(chip, module)),
            *skipped,
            *program_notes(loaded),
        ),
        input=input_facts(loaded),
    )
    if selected:
        return report
    count = format_count(module.instruction_count, "instructions")
    answer = f"No matches among {format_count(len(every), 'collectives')}" if every else f"No collectives among {count}"
    if not every and devices.count == 1:
        answer += ": one device"
    return replace(report, answer=answer, parts=(replace(table, person=False),), next=())


def _footnote(collectives: Sequence[Collective], algorithm: Algorithm) -> str:
    """Which bytes are counted; `hlo schedule` counts those of padding, too."""
    has_padding = any(padding_bytes(each.instruction) for each in collectives)
    return _FOOTNOTES[algorithm] + ("; bytes are without padding" if has_padding else "")


def _collectives_where(expression: str, module: Module) -> Predicate[Collective]:
    """Whether an expression matches a collective: its instruction, its axes, and its bytes."""
    from hlo_cli.syntax.conditions import parse_where

    def instruction_of(collective: Collective) -> Instruction:
        return collective.instruction

    fields = fields_of(module, ATTRIBUTE_NAMES, instruction_of, lambda collective: collective.instruction.shape)
    own: dict[str, Reader[Collective]] = {
        "axis": Reader("text", axis_of),
        "kind": Reader("text", lambda collective: collective.kind),
        "wire_bytes": Reader("bytes", wire_bytes_of),
        "payload_bytes": Reader("bytes", payload_bytes_of),
        "devices": Reader("count", lambda collective: AtLeast(1) if collective.devices is None else collective.devices),
        "async": Reader("flag", lambda collective: collective.is_async),
    }
    return predicate(parse_where(expression), replace(fields, readers={**fields.readers, **own}))


def _comms_table(loaded: Loaded, options: ShardOptions, collectives: Sequence[Collective], pricing: Pricing) -> Table:
    match options.grouping:
        case None:
            return _kinds_table(collectives, pricing)
        case "axis":
            return _axes_table(collectives, pricing)
        case "instruction":
            return _instructions_table(collectives, loaded.module, pricing)
    cause = cause_of(options.grouping)
    assert cause is not None
    return causes_table(collectives, keys_for(loaded, cause), pricing)


def _comms_answer(collectives: Sequence[Collective], pricing: Pricing) -> str:
    """The bytes that a device sends in one execution, and over which axes."""
    total = _traffic_of(collectives, pricing)
    axes: dict[str, list[Collective]] = {}
    for each in collectives:
        axes.setdefault(axis_of(each), []).append(each)
    sums = {axis: _traffic_of(members, pricing).known_wire_bytes for axis, members in axes.items()}
    ranked = sorted(((axis, sent) for axis, sent in sums.items() if sent), key=lambda each: (-each[1], each[0]))
    if total.wire_bytes is None and not total.known_wire_bytes:
        return f"The bytes that a device sends are unknown ({format_count(len(collectives), 'collectives')})"
    least = "" if total.wire_bytes is not None else "at least "
    words = f"A device sends {least}{format_bytes(rounded(total.known_wire_bytes))} per execution"
    if pricing.chip is not None and total.estimate is not None:
        estimate = total.estimate
        words += f" in {format_seconds_range(estimate.low, estimate.seconds, estimate.high)}"
    # That all is along no axes is the subject of a note.
    if not ranked or sums.keys() == {NO_AXES}:
        return words
    large = [(axis, sent) for axis, sent in ranked[:_MAX_AXES] if sent >= _MIN_SHARE * total.known_wire_bytes]
    if len(large) == 1 and len(ranked) == 1:
        return f"{words}, over {_axis_words(large[0][0])}"
    rest = total.known_wire_bytes - sum((sent for _, sent in large), Fraction(0))
    parts = [f"{format_bytes(rounded(sent))} over {_axis_words(axis)}" for axis, sent in large]
    parts += [f"{format_bytes(rounded(rest))} over others"] if rest >= _MIN_SHARE * total.known_wire_bytes else []
    return f"{words}: {', '.join(parts)}"


def _axis_words(axis: str) -> str:
    return "no axes of the mesh" if axis == NO_AXES else axis.replace(",", " and ")


def _comms_notes(module: Module, collectives: Sequence[Collective], mesh: KnownMesh | None) -> Iterator[Diagnostic]:
    for words in _remarks(module, collectives, mesh):
        yield Diagnostic("note", words)


def _remarks(module: Module, collectives: Sequence[Collective], mesh: KnownMesh | None) -> Iterator[str]:
    if not is_partitioned(module):
        yield "the module is not partitioned; the partitioner adds collectives to those of the program"
        added = predicted_partitioning(module)
        if added is not None and added.collectives:
            sent = sum(((each.wire_bytes or Fraction(0)) * each.runs.count for each in added.collectives), Fraction(0))
            kinds = " and ".join(groups_in_words(added.collectives))
            yield f"predicted: {kinds}, in which a device sends {format_bytes(rounded(sent))}"
        if mesh is not None and _has_automatic_axes(module, mesh.mesh):
            yield "bytes are upper bounds: the partitioner divides arrays along the axes that are not manual"
    if malformed := malformed_collectives(module):
        yield f"{format_count(malformed, 'collectives')} malformed and not counted"
    if not collectives:
        return
    for problem in dict.fromkeys(each.problem for each in collectives if each.problem):
        yield f"groups not understood: {problem}"
    unknown = sum(each.runs.known is None for each in collectives)
    if unknown:
        loops = "is in a loop" if unknown == 1 else "are in loops"
        yield f"{format_count(unknown, 'collectives')} {loops} of unknown trip count and not in the sums"
    yield from _remarks_on_mesh(collectives, mesh)
    in_branches = sum(each.runs.in_branch for each in collectives)
    if in_branches:
        verb = "is in a branch" if in_branches == 1 else "are in branches"
        yield f"{format_count(in_branches, 'collectives')} {verb} of a conditional and may run less often"
    if bounds := sum(each.is_bound for each in collectives):
        yield f"bytes of {format_count(bounds, 'ragged exchanges')} are upper bounds; their sizes are known at run time"


def _has_automatic_axes(module: Module, mesh: Mesh) -> bool:
    """Whether a shard_map leaves axes of the mesh to the partitioner."""
    axes = sum(axis.size > 1 for axis in mesh.axes)
    return any(match[1].count(",") + 1 < axes for match in _MANUAL_AXES.finditer(module.source.text))


def _remarks_on_mesh(collectives: Sequence[Collective], mesh: KnownMesh | None) -> Iterator[str]:
    if mesh is None:
        if any(each.wire_bytes for each in collectives):
            yield "no mesh is named, and no single mesh explains all groups; name its axes with --mesh"
        return
    if mesh.origin != "--mesh":
        yield mesh.remark
    without = sum(each.axes is None and each.groups is not None for each in collectives)
    if without:
        verb = "is" if without == 1 else "are"
        yield f"{format_count(without, 'collectives')} {verb} along no axes of the mesh; see --by instruction"
    for part in sorted({part for each in collectives for part in each.axes or () if part.size is not None}, key=str):
        yield _part_words(part, mesh.mesh)


def _part_words(part: AxisRef, mesh: Mesh) -> str:
    size = next(axis.size for axis in mesh.axes if axis.name == part.name)
    return f"{axes_text((part,))} is a part of the axis {part.name}: {part.size} of its {size} devices"


def _next_commands(argument: str, collectives: Sequence[Collective], options: ShardOptions) -> tuple[str, ...]:
    if not argument or argument == "-" or not collectives:
        return ()
    largest = max(collectives, key=lambda each: (each.wire_bytes or 0) * each.runs.count)
    if options.grouping != "instruction":
        axis = axis_of(largest)
        # Several axes have commas between them, and filters take only identifiers without quotes.
        quoted = axis if axis.isidentifier() else f'"{axis}"'
        where = f" --where 'axis == {quoted}'" if axis not in (NO_AXES, ONE_DEVICE) and options.where is None else ""
        return (f"hlo shard {argument} --comms --by instruction{where}", f"hlo schedule {argument}")
    return (f"hlo parse {argument} --explain {largest.instruction.name}", f"hlo schedule {argument}")
