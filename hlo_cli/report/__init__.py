"""The results of a command, independent of their format: `report.Report` has parts such as `table.Table` and
`table.Tree` with raw numbers in their cells; `numbers.format_bytes` and others format numbers for people.
"""
