"""Readers of the files that XLA writes next to a dump: `buffer_assignment.parse_buffer_assignment` and
`live_ranges.parse_live_ranges`.
"""
