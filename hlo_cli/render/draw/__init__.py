"""Parts of a report as lines of text, for screens and text files: `table.lines_of_table` for tables,
`charts.lines_of_timeline` for timelines, and so on, a function `lines_of_` for each kind of part.
"""
