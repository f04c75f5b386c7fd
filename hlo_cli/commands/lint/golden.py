"""`hlo lint --golden DUMP`: the values of assertions in the modules of a golden dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_cli.analysis.query.assertions import GoldenValues, golden_values
from hlo_cli.commands.lint.assertions import memory_of
from hlo_cli.commands.modules.loading import every_module
from hlo_cli.commands.modules.many import map_inputs
from hlo_cli.commands.options.io_options import InputOptions, requirement_error
from hlo_cli.dataclass import dataclass
from hlo_cli.ir.expressions import Expectation
from hlo_cli.source import HloError, Source
from hlo_cli.syntax.attribute_table import ATTRIBUTE_NAMES

if TYPE_CHECKING:
    from hlo_cli.analysis.memory.memory_analysis import MemoryAnalysis
    from hlo_cli.inputs.input import Input
    from hlo_cli.ir.module import Module


@dataclass(frozen=True, slots=True)
class GoldenModules:
    """Values of assertions in the modules of the golden dump, by the module's name."""

    by_name: Mapping[str, GoldenValues]

    def of(self, name: str) -> GoldenValues | None:
        """The values in the module of a name, or in the only module; None if there is none.

        >>> values = {}
        >>> GoldenModules({"jit_f": values}).of("jit_g") is values, GoldenModules({}).of("jit_g")
        (True, None)
        """
        if len(self.by_name) == 1:
            return next(iter(self.by_name.values()))
        return self.by_name.get(name)


def golden_modules(
    path: str | None, expectations: Sequence[Expectation], reading: InputOptions, *, default: str | None = None
) -> GoldenModules | None:
    """Measures the golden dump; HloError if it cannot be read, or if it is missing or not needed.

    `default` is the dump that settings name, which need not be used.
    """
    using = [each for each in expectations if each.uses_golden]
    if path is None and using:
        path = default
    if path is None:
        if using:
            raise _missing(using[0])
        return None
    if not using:
        hint = "for example, peak.hbm <= golden * 1.02"
        raise HloError("--golden has no effect: no assertion refers to golden", hint=hint)
    measure = _Measure(tuple(expectations))
    found: dict[str, GoldenValues] = {}
    for each in map_inputs(every_module([path], reading), replace(reading, strict=False), None, measure):
        if each.answer is None:
            named = Source(path, "")
            raise HloError.of(one if one.source is not None else replace(one, source=named) for one in each.errors)
        found.setdefault(*each.answer)
    return GoldenModules(found)


@dataclass(frozen=True, slots=True)
class _Measure:
    """Measures one golden module; called for every module."""

    expectations: tuple[Expectation, ...]

    def __call__(self, module: Module, given: Input) -> tuple[str, GoldenValues]:
        def memory() -> MemoryAnalysis:
            return memory_of(module, given)

        return module.name, golden_values(module, self.expectations, attributes=ATTRIBUTE_NAMES, memory=memory)


def _missing(expectation: Expectation) -> HloError:
    error = requirement_error("golden", "--golden DUMP").diagnostic
    return HloError(error.message, expectation.span, source=expectation.source, hint=error.hint)
