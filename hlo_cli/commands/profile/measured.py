"""The subject of every screen of `hlo profile`: a profile, the roof of its devices, and the selected operations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.measure import operation_measures, rates_of
from hlo_cli.analysis.profile.operation_times import MeanTimes, mean_times
from hlo_cli.analysis.profile.profile import PS, module_name
from hlo_cli.commands.options.io_options import format_options
from hlo_cli.commands.profile.load import Loaded
from hlo_cli.commands.profile.roofs import Roofs
from hlo_cli.commands.profile.timed import Sum, Timed, counted_words, sum_of
from hlo_cli.report.numbers import format_seconds
from hlo_cli.report.unknown_choice import unknown_choice_error
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.hardware.chip_specs import ChipSpec
    from hlo_cli.analysis.profile.profile import Profile

_DEVICES: Final = {"TPU": "core", "GPU": "GPU", "CPU": "device"}
"""What each platform calls the devices of a trace."""
MIN_OVERLAP: Final = 1.005
"""From which overlap on a note is worth its line: below, shares and idle time add up to 100% as they are rounded."""


class Measured:
    """A profile with its operations: all of them, and those that `--where` selects. Read when first asked for."""

    def __init__(
        self, loaded: Loaded, *, chip: ChipSpec | None = None, where: str | None = None, module: str | None = None
    ) -> None:
        """`module` selects the operations of one program, by its name."""
        self.loaded, self.where, self.module = loaded, where, module
        self.profile: Profile = loaded.profile
        self.roofs = Roofs(self.profile.peaks, chip)

    @cached_property
    def chip(self) -> ChipSpec | None:
        """The chip for predictions: that of --chip, else the GPU of the trace, if it is a known one."""
        if self.roofs.chip is not None or self.profile.platform != "GPU":
            return self.roofs.chip
        from hlo_cli.analysis.hardware.chip_specs import chip_spec

        names = self.profile.device_type, self.profile.peaks.chip if self.profile.peaks else ""
        for name in filter(None, names):
            with suppress(HloError):
                return chip_spec(name)
        return None

    @cached_property
    def every(self) -> Sequence[Timed]:
        """All operations with their times."""
        pairs = zip(self.profile.operations, operation_measures(self.profile), strict=True)
        return tuple(
            Timed(operation, measure, rates_of(operation, measure, self.roofs.peaks(operation)))
            for operation, measure in pairs
        )

    @cached_property
    def _selection(self) -> tuple[tuple[Timed, ...], tuple[Diagnostic, ...]]:
        every = tuple(self.every if self.module is None else self._of_module(self.module))
        if self.where is None:
            return every, ()
        from hlo_cli.commands.options.filters import chosen
        from hlo_cli.commands.profile.where import timed_where

        return chosen(timed_where(self.where, self.profile), every, "operations")

    def _of_module(self, name: str) -> Sequence[Timed]:
        """The operations of a program, or of all programs of a module with that name."""
        every = [(each, each.operation.program.name) for each in self.every if each.operation.program]
        found = [each for each, own in every if own == name] or [
            each for each, own in every if module_name(own) == name
        ]
        if not found:
            raise unknown_choice_error("module", name, dict.fromkeys(own for _, own in every))
        return found

    @property
    def is_narrowed(self) -> bool:
        """Whether only some operations are selected."""
        return self.where is not None or self.module is not None

    @property
    def selected(self) -> Sequence[Timed]:
        """The operations that `--where` selects; all without it."""
        return self._selection[0]

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Notes on the selection, the peak rates, a chip of another kind than the trace, and the reading."""
        texts = (self.roofs.words, self._other_chip)
        noted = (Diagnostic("note", text) for text in texts if text)
        return (*self._selection[1], *self.time_notes, *noted, *self.loaded.notes)

    @property
    def time_notes(self) -> tuple[Diagnostic, ...]:
        """Notes on which events count, and on operations that ran at the same time."""
        texts = (counted_words(self.means), self._overlap_words)
        return tuple(Diagnostic("note", text) for text in texts if text)

    @property
    def _overlap_words(self) -> str:
        """A note if operations ran at the same time, so that their times add up to more than passed; empty if not."""
        if self.overlap == 1:
            return ""
        own, busy = (format_seconds(self.per_device(each)) for each in (self.sum.self_time, self.busy))
        lines = {"CPU": "threads", "GPU": "streams"}.get(self.profile.platform, "lines")
        per = f" per {self.device_noun}" if len(self.profile.devices) > 1 else ""
        words = f"operations on several {lines} overlap: {own} in {busy} of busy time{per}"
        return f"{words}; time that several share is divided between them"

    @property
    def _other_chip(self) -> str:
        """A note if the chip is of another kind than the devices of the trace; empty if not."""
        from hlo_cli.analysis.hardware.chips import known_chips

        name, platform = self.roofs.chip.chip if self.roofs.chip else "", self.profile.platform
        chip = next((each for each in known_chips() if each.name == name), None)
        if chip is None or chip.target.upper() == platform:
            return ""
        return f"{chip.name} is a {chip.target.upper()}, but the trace is of a {platform}"

    @cached_property
    def means(self) -> MeanTimes:
        """The times of all operations per step."""
        return mean_times(self.profile)

    @cached_property
    def sum(self) -> Sum:
        """The sum of all operations."""
        return sum_of(self.every)

    @cached_property
    def whole(self) -> float:
        """The time of all devices together, idle time included, in seconds."""
        return self.profile.total_ps * PS

    @cached_property
    def busy(self) -> float:
        """The time in which any operation ran, of all devices together, in seconds."""
        return sum(self.profile.busy_ps) * PS

    @cached_property
    def idle(self) -> float:
        """The time in which no operation ran, of all devices together, in seconds."""
        return sum(self.profile.idle_ps) * PS

    @property
    def overlap(self) -> float:
        """How many operations ran at once on a busy device, in the mean; 1 if they ran one after another."""
        found = self.sum.self_time / self.busy if self.busy else 1.0
        return found if found > MIN_OVERLAP else 1.0

    @property
    def device_noun(self) -> str:
        """What one device is called, such as `core`."""
        return _DEVICES[self.profile.platform]

    @property
    def whole_words(self) -> str:
        """The time of one device, such as `488.0 ms per core`; of the only device, without the noun."""
        devices = len(self.profile.devices)
        words = format_seconds(self.whole / max(devices, 1))
        return f"{words} per {self.device_noun}" if devices > 1 else words

    def per_device(self, seconds: float) -> float:
        """A time of all devices, for one of them."""
        return seconds / max(len(self.profile.devices), 1)

    @property
    def command(self) -> str:
        """The command line that reads the trace again; empty if it cannot be typed."""
        if not self.loaded.argument:
            return ""
        return f"hlo profile {self.loaded.argument} {format_options((('--module', self.module),))}".rstrip()
