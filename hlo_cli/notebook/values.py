"""The report of a value: that of the command which answers the same question about a dump."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hlo_cli.report.report import Part, Report
from hlo_cli.source import HloError

if TYPE_CHECKING:
    from hlo_cli.analysis.fusion.fusions import FusionList
    from hlo_cli.analysis.fusion.kernels import KernelList
    from hlo_cli.analysis.matching.module_diff import ModuleDiff
    from hlo_cli.analysis.memory.memory_model import MemoryAnalysis, MemorySpaceUsage
    from hlo_cli.analysis.profile.profile import Profile
    from hlo_cli.analysis.profile_diff.comparison import ProfileComparison
    from hlo_cli.analysis.schedule.async_overlap import OverlapAnalysis
    from hlo_cli.commands.profile.load import Loaded as LoadedProfile
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.ir.layout import Layout
    from hlo_cli.ir.module import Module
    from hlo_cli.ir.shape import Shape
    from hlo_cli.lint.run import FindingList
    from hlo_cli.report.finding import Finding


def report_of(value: object) -> Report:
    """The report of a displayed value; HloError if the value is too damaged for one.

    >>> from hlo_cli import parse_shape
    >>> report_of(parse_shape("f32[3,5]{1,0:T(2,2)}")).answer
    'Needs 96 bytes for 60 bytes of data (38% padding)'
    """
    return _found(_REPORTS, value)(value)


def data_report_of(value: object) -> Report:
    """The report with the tables of a value; for some values they are more than what is shown.

    >>> from hlo_cli import parse_shape
    >>> data_report_of(parse_shape("f32[3,5]{1,0:T(2,2)}")).main_table.rows
    (((), 15, 60, 96, 0.375, 0, 'f32[3,5]{1,0:T(2,2)}'),)
    """
    return _found({**_REPORTS, **_DATA}, value)(value)


def _found(reports: Mapping[str, Callable[[Any], Report]], value: object) -> Callable[[Any], Report]:
    for kind in type(value).__mro__:
        if kind.__name__ in reports:
            return reports[kind.__name__]
    raise HloError(f"a value of type {type(value).__name__} has no report")


def loaded(module: Module) -> Loaded:
    """A module as if a command had read it; its stage is that in the name of its file."""
    from hlo_cli.commands.shared.load import Loaded
    from hlo_cli.inputs.dumps import parse_dump_name
    from hlo_cli.inputs.input import Input

    dump = parse_dump_name(os.path.basename(module.source.name))
    return Loaded(module, Input(module.source, module.source.name or None, module=module.name, dump=dump))


def _of_module(module: Module) -> Report:
    from hlo_cli.commands.parse.summary import report_of_module

    return report_of_module(loaded(module), "")


def _rows_of_module(module: Module) -> Report:
    """The instructions, and the tables of the summary."""
    from hlo_cli.commands.parse.instructions import report_of_instructions

    report = report_of_instructions(loaded(module))
    return replace(report, parts=(*report.parts, *_of_module(module).tables))


def _of_shape(shape: Shape) -> Report:
    """The explanation of a shape, with its drawing first."""
    from hlo_cli.commands.layout.shape import report_of_shape

    text = str(shape)
    explained = report_of_shape(text)
    drawn = [part for part in report_of_shape(text, draw=True).parts if part.kind in ("figure", "passage")]
    rest = [part for part in explained.parts if part.kind != "passage"]
    return replace(explained, parts=(*drawn, *rest), next=())


def _rows_of_shape(shape: Shape) -> Report:
    """The leaves; an array is one."""
    from hlo_cli.commands.layout.tables import leaves_answer, leaves_table

    return Report("layout", leaves_answer(shape), parts=(leaves_table(shape),))


def _of_layout(layout: Layout) -> Report:
    from hlo_cli.notebook.layouts import example_of

    shape = example_of(layout)
    report = _of_shape(shape)
    return replace(report, answer=f"Layout {layout}, shown for {shape}")


def _of_memory(memory: MemoryAnalysis) -> Report:
    return _memory_report(memory, None)


def _rows_of_memory(memory: MemoryAnalysis) -> Report:
    """The values at the peak of every memory space; all values are `buffers`."""
    return _memory_report(memory, "all")


def _memory_report(memory: MemoryAnalysis, space: str | None) -> Report:
    from hlo_cli.commands.memspace.options import MemspaceOptions
    from hlo_cli.commands.memspace.report import report_of_memory

    return report_of_memory(loaded(memory.module), memory, MemspaceOptions(space=space), "")


def _of_space(space: MemorySpaceUsage) -> Report:
    from hlo_cli.notebook.spaces import report_of_space

    return report_of_space(space)


def _of_overlap(overlap: OverlapAnalysis) -> Report:
    from hlo_cli.commands.schedule.async_table import report_of_pairs

    return report_of_pairs(loaded(overlap.module), overlap, within=None, where=None, argument="")


def _of_diff(found: ModuleDiff) -> Report:
    from hlo_cli.commands.diff.report import DiffSide, report_of_diff
    from hlo_cli.commands.diff.view import View

    before, after = (
        DiffSide(each.module, each.input.path or "-", each.input.stage)
        for each in map(loaded, (found.before, found.after))
    )
    report, _ = report_of_diff(found, before, after, View("statements", (), with_schedule=False), ())
    return report


def _of_profile(profile: Profile) -> Report:
    from hlo_cli.commands.profile.measured import Measured
    from hlo_cli.commands.profile.operations import report_of_operations

    return report_of_operations(Measured(_loaded_profile(profile)))


def _of_comparison(found: ProfileComparison) -> Report:
    from hlo_cli.commands.profile.against import report_of_comparison

    return report_of_comparison(found, _loaded_profile(found.after), _loaded_profile(found.before))


def _loaded_profile(profile: Profile) -> LoadedProfile:
    from hlo_cli.commands.profile.load import Loaded as LoadedProfile

    return LoadedProfile(profile, profile.traces[0].name if profile.traces else "", "")


def _of_fusions(fusions: FusionList) -> Report:
    return _listed(_fuse_report(fusions.context), "fusions", "fusion", [each.name for each in fusions])


def _of_kernels(kernels: KernelList) -> Report:
    report = _fuse_report(kernels.context)
    names = [kernel.instruction.name for kernel in kernels]
    report = _listed(report, "kernels", "instruction", names)
    return replace(report, parts=tuple(part for part in report.parts if part.name != "fusions"))


def _fuse_report(module: Module) -> Report:
    from hlo_cli.commands.fuse.fusion_table import report_of_fusions

    report = report_of_fusions(loaded(module), within=None, where=None, timing=None, argument="")
    return replace(report, parts=tuple(part for part in report.parts if part.kind == "table"))


def _listed(report: Report, table: str, column: str, names: Sequence[str]) -> Report:
    """A report with the rows of a table that have these names, as its main table."""
    parts: list[Part] = []
    wanted = frozenset(names)
    whole = True
    for part in report.parts:
        if part.kind == "table" and part.name == table:
            at = part.column_index(column)
            rows = tuple(row for row in part.rows if row[at] in wanted)
            whole = len(rows) == len(part.rows)
            parts.insert(0, replace(part, rows=rows, main=True, person=True))
        else:
            parts.append(replace(part, main=False) if part.kind == "table" else part)
    if whole:
        return replace(report, parts=tuple(parts))
    count = f"{len(names):,} of the {table} of the module"
    return replace(report, answer=count, numbers={table: len(names)}, parts=tuple(parts[:1]))


def _of_findings(found: FindingList) -> Report:
    from hlo_cli.commands.lint.report import in_order, report_of
    from hlo_cli.commands.lint.run import LintedModule, LintResult
    from hlo_cli.lint.settings import LintSettings

    checked = found.context
    module = LintedModule(checked.path, checked.name, None, checked.instructions)
    result = LintResult(tuple(found), (), (), (), (module,))
    return replace(report_of(result, in_order(found, "cost"), LintSettings(select=checked.rules), ""), next=())


def _of_finding(found: Finding) -> Report:
    from hlo_cli.commands.lint.report import texts_of
    from hlo_cli.lint.catalog import rule_of
    from hlo_cli.report.findings import Findings

    rules = (texts_of(rule_of(found.code)),)
    return Report("lint", str(found), parts=(Findings("findings", (found,), rules, (found.path,)),))


_REPORTS: Final[Mapping[str, Callable[[Any], Report]]] = {
    "Module": _of_module,
    "ArrayShape": _of_shape,
    "BufferShape": _of_shape,
    "TupleShape": _of_shape,
    "Layout": _of_layout,
    "MemoryAnalysis": _of_memory,
    "MemorySpaceUsage": _of_space,
    "OverlapAnalysis": _of_overlap,
    "ModuleDiff": _of_diff,
    "Profile": _of_profile,
    "ProfileComparison": _of_comparison,
    "FusionList": _of_fusions,
    "KernelList": _of_kernels,
    "FindingList": _of_findings,
    "Finding": _of_finding,
}
"""The report of each class of values, by its name."""
_DATA: Final[Mapping[str, Callable[[Any], Report]]] = {
    "Module": _rows_of_module,
    "ArrayShape": _rows_of_shape,
    "BufferShape": _rows_of_shape,
    "TupleShape": _rows_of_shape,
    "MemoryAnalysis": _rows_of_memory,
}
"""The report with the tables of a class, where it differs."""
