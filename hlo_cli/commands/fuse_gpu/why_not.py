"""`hlo fuse DUMP --why-not` for a GPU: from XLA's own dump where there is one, else computed for a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlo_cli.commands.fuse_gpu.chips import check_target, chip_note, gpu_of_dump, is_dump_of, is_for_gpu
from hlo_cli.commands.fuse_gpu.fusion_dump import fusion_dump
from hlo_cli.commands.modules.loading import Loaded
from hlo_cli.ir.instruction import Computation
from hlo_cli.report.report import Report
from hlo_cli.source import Diagnostic


def report_of_gpu_why_not(
    loaded: Loaded,
    chips: tuple[str, ...],
    *,
    names: Sequence[str],
    within: Computation | None,
    where: str | None,
    argument: str,
) -> Report | None:
    """The pairs that are not fused, or with `names` one decision in full; None for a module of another target.

    `chips` are GPUs; without one, it is the chip for which the dump was made.
    """
    for chip in chips:
        check_target(loaded, chip)
    if len(chips) > 1:
        from hlo_cli.commands.fuse_gpu.compared_chips import report_of_compared_chips

        return report_of_compared_chips(loaded, chips, names=names, within=within, where=where, argument=argument)
    dump = fusion_dump(loaded)
    if dump is not None and (not chips or is_dump_of(dump.process, chips[0])):
        if names:
            from hlo_cli.commands.fuse_gpu.why_not_pair import report_of_dumped_pair

            return report_of_dumped_pair(loaded, dump, names=names, within=within, where=where, argument=argument)
        from hlo_cli.commands.fuse_gpu.why_not_dump import report_of_dumped_why_not

        report = report_of_dumped_why_not(loaded, dump, names=names, within=within, where=where, argument=argument)
        gpu = gpu_of_dump(loaded, dump.process)
        if report.numbers.get("pairs") or loaded.module.is_scheduled or gpu is None:
            return report
        # A module before its fusions has other names than those that the dump's pairs have at the end.
        return _computed(loaded, gpu, names=names, within=within, where=where, argument=argument)
    if not chips and not is_for_gpu(loaded):
        return None
    chosen = chips[0] if chips else gpu_of_dump(loaded)
    if chosen is None:
        from hlo_cli.commands.fuse_gpu.why_not_dump import report_of_dumped_why_not

        return report_of_dumped_why_not(loaded, None, names=names, within=within, where=where, argument=argument)
    report = _computed(loaded, chosen, names=names, within=within, where=where, argument=argument)
    return report if chips else replace(report, notes=(Diagnostic("note", chip_note(chosen)), *report.notes))


def _computed(
    loaded: Loaded, chip: str, *, names: Sequence[str], within: Computation | None, where: str | None, argument: str
) -> Report:
    if names:
        from hlo_cli.commands.fuse_gpu.why_not_pair import report_of_computed_pair

        return report_of_computed_pair(loaded, chip, names=names, within=within, where=where, argument=argument)
    from hlo_cli.commands.fuse_gpu.why_not_computed import report_of_computed_why_not

    return report_of_computed_why_not(loaded, chip, within=within, where=where, argument=argument)
