"""What a command found, before anybody decides how it looks: `report.Report` has parts such as `table.Table` and
`tree.Tree` with raw numbers in their cells; `numbers.format_bytes` and its neighbors write numbers for people.
"""
