"""How are MFU and HFU shown? Facts at the head, numbers, a sentence on what counts, and columns of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hlo_cli.analysis.profile.profile import Step
from hlo_cli.analysis.profile.utilization import Utilization, utilization_by_step
from hlo_cli.report.numbers import format_count, format_flops, format_percent, format_rate, list_first
from hlo_cli.report.table import Cell, Column

if TYPE_CHECKING:
    from hlo_cli.commands.profile.measured import Measured

_MAX_NAMED: Final = 3  # custom calls that a sentence names


def utilization_facts(used: Utilization | None) -> list[str]:
    """MFU, and HFU if something is computed again; without peak rates, the model FLOP/s of a device."""
    if used is None:
        return []
    if used.mfu is None or used.hfu is None:
        again = (
            f" ({format_rate(used.hardware_flop_rate, 'flop')} with rematerialization)" if used.recomputed_flops else ""
        )
        return [f"{_about(used)}{format_rate(used.model_flop_rate, 'flop')} of matmuls{again}, idle time included"]
    named = [("MFU", used.mfu), ("HFU", used.hfu)][: 2 if used.recomputed_flops else 1]
    return [
        f"{name} {_about(used)}{format_percent(part)}%{' (above the peak)' if part > 1 else ''}" for name, part in named
    ]


def _about(used: Utilization) -> str:
    return "about " if used.guesses else ""


def utilization_numbers(measured: Measured) -> dict[str, Cell]:
    """The same for programs; FLOPs are those of a mean step on all devices, or of the trace if it has no steps."""
    used = measured.utilization
    if used is None:
        return {}
    steps = _steps(measured)
    return {
        "mfu": used.mfu,
        "hfu": used.hfu,
        "model_flops": used.model_flops / steps,
        "hardware_flops": used.hardware_flops / steps,
        "model_flop_rate": used.model_flop_rate,
        "hardware_flop_rate": used.hardware_flop_rate,
        "flops_are_estimated": bool(used.guesses),
    }


def utilization_words(measured: Measured) -> Iterator[str]:
    """What MFU counts, and what not; why it may be wrong if it is above 100%."""
    used = measured.utilization
    if used is None:
        return
    if used.guesses:
        yield f"Flops of matmuls are a guess where no events show it: {list_first(used.guesses, _MAX_NAMED)}."
    if used.mfu is None or used.hfu is None:
        return
    devices = max(len(measured.profile.devices), 1)
    per = "in the trace" if measured.budget is None else f"per {measured.step_noun.removesuffix('s')}"
    amount = f"{format_flops(round(used.model_flops / _steps(measured) / devices))} {per}"
    amount += f" and {measured.device_noun}" if devices > 1 else ""
    rates = dict.fromkeys(
        f"{format_rate(peak, 'flop')} in {measured.matmul_peak_type(kind)}"
        for kind, _ in sorted(used.flops_of_type.items(), key=lambda each: -each[1])
        if (peak := measured.matmul_peak(kind))
    )
    words = f"MFU: {format_count(used.operations, 'operations')} with matmuls, {amount}, against {', '.join(rates)}"
    if used.recomputed_flops:
        share = format_percent(used.recomputed_flops / used.hardware_flops)
        words += f"; {share}% of the flops of matmuls are of rematerialization, which only HFU counts"
    yield f"{words}. Elementwise work is not counted{_unknown_words(used)}."
    parts = (("MFU", used.mfu), *((("HFU", used.hfu),) if used.recomputed_flops else ()))
    above = [name for name, part in parts if part > 1]
    if above:
        verb = "is" if len(above) == 1 else "are"
        yield f"{' and '.join(above)} {verb} above 100%, which is impossible: {_reasons(measured, used)}."


def _reasons(measured: Measured, used: Utilization) -> str:
    """Why a utilization may be above 100%, in words."""
    rate = "the peak rate is too low"
    if measured.roofs.chip is not None:
        rate += f", such as that of another chip than {measured.roofs.chip.chip}"
    unsure = ", a trip count in the HLO is not that of the run" if not used.guesses else ", the guess is too high"
    return f"matmuls need fewer flops than XLA counts{unsure}, events are missing, or {rate}"


def _unknown_words(used: Utilization) -> str:
    if not used.unknown:
        return ""
    return f"; custom calls of unknown work: {list_first(used.unknown, _MAX_NAMED)}"


def _steps(measured: Measured) -> int:
    """How many whole steps there are; 1 without any."""
    return 1 if measured.budget is None else max(len(set(measured.budget.steps.tolist())), 1)


class StepUtilization:
    """The model FLOPs and the MFU of each step."""

    def __init__(self, measured: Measured) -> None:
        """Computes those of all steps; none are shown if only some operations are selected."""
        profile = measured.profile
        found = (
            [(0.0, None)] * len(profile.steps)
            if measured.is_narrowed
            else utilization_by_step(profile, measured.budget, measured.matmul_peak)
        )
        self._by_step = dict(zip(profile.steps, found, strict=True))
        has_mfu = any(mfu is not None for _, mfu in found)
        self.columns: tuple[Column[tuple[float, float | None] | None], ...] = (
            Column("model_flops", "model flops", "flops", total="sum", person=False, of=_first),
            Column("mfu", "MFU", "percent", person=has_mfu, rank=6, of=_second),
        )

    def of_step(self, step: Step) -> tuple[float, float | None]:
        """The model FLOPs and the MFU of a step."""
        return self._by_step[step]


def _first(found: tuple[float, float | None] | None) -> float | None:
    return None if found is None else found[0]


def _second(found: tuple[float, float | None] | None) -> float | None:
    return None if found is None else found[1]
