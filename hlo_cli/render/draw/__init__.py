"""Parts of a report as lines of text, one file a part: `table.lines` for tables, `timeline.lines` for charts,
and so on.
"""
