"""Readers of the files that XLA writes next to a dump: `buffer_assignment.parse_buffer_assignment`,
`live_ranges.parse_live_ranges`, `oom.parse_out_of_memory`.
"""
