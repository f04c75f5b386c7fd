"""The query languages: `where.parse_where` for `--where`, `assertions.read_expectations` for the file of
`--expect`.
"""
