"""Parts of a report as lines of text, one file for each kind: `table.lines` for tables, `timeline.lines` for charts,
and so on.
"""
