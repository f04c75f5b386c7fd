"""Readers of what compilers write besides modules: `memory_files.parse_buffer_assignment` and
`memory_files.parse_live_ranges`, `usage_report`, `fusion_process`, `flags`, and `perf_tables`.
"""
