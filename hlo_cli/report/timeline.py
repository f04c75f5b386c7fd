"""Timelines: the buffers live at every step of a schedule, and the loops of the steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from itertools import accumulate, pairwise, repeat
from typing import ClassVar, Literal

from hlo_cli.dataclass import dataclass
from hlo_cli.report.table import Cell, Column, LazyRows, Loop, Row, Table

_BAND_COLUMNS = (
    Column("space", "space"),
    Column("value", "value", "name"),
    Column("start", "start", "step"),
    Column("end", "end", "step"),
    Column("bytes", "", "bytes", total="sum"),
    Column("kind", "kind"),
    Column("shape", "shape", "shape"),
    Column("op_name", "op_name", "op_name"),
    Column("source", "source", "source"),
    Column("reused_by", "reused by", "name"),
)


@dataclass(frozen=True, slots=True)
class Band:
    """One buffer that is live from step `start` to step `end`, inclusive; the other fields describe it.

    `reused_by` is the buffer that uses its memory from the step after the end on, if any.

    >>> Band("fusion.2", 17, 21, 2883584, kind="temp", shape="f32[4,4,4,32,11]{2,0,1,4,3:T(4,128)S(1)}").end
    21
    """

    label: str
    start: int
    end: int
    bytes: int
    _: KW_ONLY
    kind: str = ""
    shape: str = ""
    op_name: str = ""
    source: str = ""
    reused_by: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked step; the peak of a track is always marked.

    >>> Mark(3, "copy.10").step
    3
    """

    step: int
    label: str


@dataclass(frozen=True, slots=True)
class Track:
    """The live bytes of one memory space at every step, the buffers that occupy them, and the limit.

    The part of `totals` not covered by bands is drawn as the rest. `details` are a row for each band, with the cells of
    `Timeline.details`; pictures do not read them, so they are best computed when they are read.

    >>> Track("VMEM", (0, 64, 96, 96, 32)).peak_step
    2
    """

    name: str
    totals: Sequence[int]
    bands: Sequence[Band] = ()
    _: KW_ONLY
    limit_bytes: int | None = None
    marks: tuple[Mark, ...] = ()
    details: Sequence[Row] = ()

    @property
    def peak_bytes(self) -> int:
        """The largest number of live bytes at any step."""
        return max(self.totals, default=0)

    @property
    def peak_step(self) -> int | None:
        """The first step with the peak usage; None if no step has any."""
        peak = self.peak_bytes
        return self.totals.index(peak) if peak > 0 else None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The steps of a schedule, from 0, and one or more tracks, each with a total for every step.

    `instructions` are the names of the instructions of the steps, if known. `details` are further columns of its table.
    With `person=False`, screens and documents do not show it. An interactive page has the rows of at most `page_limit`
    buffers of each track.

    >>> bands = (Band("a", 0, 2, 64), Band("b", 1, 1, 32))
    >>> timeline = Timeline("memory", (Track("HBM", totals_of(bands, 4), bands),), (Loop("while.10", 1, 2, 32),))
    >>> table = timeline.as_table()
    >>> timeline.steps, table.rows[1][:5]
    (4, ('HBM', 'b', 1, 1, 32))
    """

    kind: ClassVar[Literal["timeline"]] = "timeline"
    name: str
    tracks: tuple[Track, ...]
    loops: tuple[Loop, ...] = ()
    _: KW_ONLY
    instructions: Sequence[str] = ()
    title: str = ""
    details: tuple[Column, ...] = ()
    person: bool = True
    page_limit: int = 4_000  # the largest; what nobody scrolls to only makes a page slow to open

    @property
    def steps(self) -> int:
        """The number of steps."""
        return max((len(track.totals) for track in self.tracks), default=0)

    def as_table(self) -> Table | None:
        """One row for each buffer, computed when read; None if only totals are known."""
        if not any(track.bands for track in self.tracks):
            return None
        rows = LazyRows(sum(len(track.bands) for track in self.tracks), self._rows)
        columns = (*_BAND_COLUMNS, *self.details)
        return Table(self.name, columns, rows, title=self.title, noun="buffers", main=False)

    def _rows(self) -> Iterator[Row]:
        for track in self.tracks:
            details = track.details if self.details else repeat(())
            for band, more in zip(track.bands, details, strict=bool(self.details)):
                yield (*_row(track, band), *more)

    @property
    def data(self) -> Mapping[str, Cell]:
        """Data that is not in the rows: loops, limits, marks, and the totals as the steps at which they change.

        >>> Timeline("memory", (Track("HBM", (5, 5, 8)),)).data["tracks"][0]["totals"]
        ((0, 5), (2, 8))
        """
        loops = (
            {"name": loop.name, "start": loop.start, "end": loop.end, "trip_count": loop.trips} for loop in self.loops
        )
        return {"steps": self.steps, "loops": tuple(loops), "tracks": tuple(map(_data, self.tracks))}


def _row(track: Track, band: Band) -> Row:
    what = band.kind, band.shape, band.op_name, band.source, band.reused_by
    return track.name, band.label, band.start, band.end, band.bytes, *what


def totals_of(bands: Iterable[Band], steps: int) -> tuple[int, ...]:
    """The sum of the bytes of all bands at each step.

    >>> totals_of((Band("a", 0, 2, 64), Band("b", 1, 9, 32)), 4)
    (64, 96, 96, 32)
    """
    change = [0] * (steps + 1)
    for band in bands:
        if band.start < steps and band.end >= max(band.start, 0):
            change[max(band.start, 0)] += band.bytes
            change[min(band.end + 1, steps)] -= band.bytes
    return tuple(accumulate(change[:steps]))


def changes_of(totals: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first step and every step at which the total changes, with the new total.

    >>> list(changes_of((5, 5, 8, 8, 5)))
    [(0, 5), (2, 8), (4, 5)]
    """
    yield from [(0, totals[0])] if totals else []
    for step, (before, after) in enumerate(pairwise(totals), start=1):
        if before != after:
            yield step, after


def _data(track: Track) -> Mapping[str, Cell]:
    return {
        "name": track.name,
        "peak_bytes": track.peak_bytes,
        "peak_step": track.peak_step,
        "limit_bytes": track.limit_bytes,
        "marks": tuple({"step": mark.step, "label": mark.label} for mark in track.marks),
        "totals": tuple(changes_of(track.totals)),
    }
