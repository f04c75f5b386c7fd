"""Measured trip counts for loops whose trip count a module does not determine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hlo_cli.report.numbers import ROUNDING, format_number
from hlo_cli.source import Diagnostic, HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.profile.profile import Profile
    from hlo_cli.commands.modules.loading import Loaded

_MAX_NAMED: Final = 3
_MEASURED: Final = "trip counts are measured"
_DIFFERENT: Final = "trip counts differ between runs"


def with_measured_trips(loaded: Loaded, profile: Profile) -> tuple[Loaded, tuple[Diagnostic, ...]]:
    """The module with the trip counts of a profile where it has none of its own, and notes on them.

    A count that differs from run to run is only noted. HloError if several programs of the profile fit the module.
    """
    from hlo_cli.analysis.profile.measure import measured_trips, operation_measures
    from hlo_cli.analysis.profile.profile import program_of
    from hlo_cli.commands.profile.load import program_id
    from hlo_cli.transform.module_time import unknown_loops

    unknown = unknown_loops(loaded.module)
    if not unknown:
        return loaded, ()
    calls = [each.calls for each in operation_measures(profile)]
    program = program_of(profile, loaded.module, proto=loaded.input.proto, id=program_id(loaded.input))
    loops = set() if program is None or program.module is None else set(program.module.instructions)
    measured = {loop.name: trips for loop, trips in measured_trips(profile, calls).items() if loop in loops}
    found = {each.name: measured[each.name] for each in unknown if each.name in measured}
    exact = {name: round(trips) for name, trips in found.items() if abs(trips - round(trips)) < ROUNDING}
    notes = []
    for words, chosen in ((_MEASURED, exact.keys()), (_DIFFERENT, found.keys() - exact)):
        if names_of := sorted(chosen):
            listed = ", ".join(f"{name} × {format_number(found[name])}" for name in names_of[:_MAX_NAMED])
            more = f", and {len(names_of) - _MAX_NAMED:,} more" if len(names_of) > _MAX_NAMED else ""
            notes.append(Diagnostic("note", f"{words}: {listed}{more}"))
    return _with_trips(loaded, exact), tuple(notes)


def _with_trips(loaded: Loaded, trips: Mapping[str, int]) -> Loaded:
    from hlo_cli.transform.module_time import with_trip_counts

    with suppress(HloError):  # of a damaged module
        return replace(loaded, module=with_trip_counts(loaded.module, trips))
    return loaded
