"""The columns of summaries: what is least useful is left to wide screens, so that names and shapes stay readable."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_cli.analysis.evaluate.run import Summary
from hlo_cli.report.table import Cell, Column


def summary_columns(summaries: Sequence[Summary]) -> tuple[Column, ...]:
    """The columns of some summaries; a screen shows NaN and Inf only if one of them has some.

    >>> [column.name for column in summary_columns([]) if column.person and not column.from_width]
    ['least', 'most', 'mean', 'first']
    """
    return (
        Column("least", "least", "number"),
        Column("most", "most", "number"),
        Column("mean", "mean", "number"),
        Column("rms", "rms", "number", from_width=120),
        Column("zeros", "zeros", "count", from_width=120),
        Column("nan", "NaN", "count", role="alarm", person=any(each.nan for each in summaries)),
        Column("inf", "Inf", "count", role="alarm", person=any(each.inf for each in summaries)),
        Column("first", "first elements", rank=1),
    )


def summary_cells(summary: Summary) -> tuple[Cell, ...]:
    """The cells of a summary, in the order of the columns."""
    return (
        summary.least, summary.most, summary.mean, summary.rms, summary.zeros, summary.nan, summary.inf,
        summary.first_text,
    )  # fmt: skip
