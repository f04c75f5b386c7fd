"""Readers of what compilers write besides modules: `memory_files.parse_buffer_assignment` and
`memory_files.parse_live_ranges`, `usage_report`, `fusion_process`, the errors, `compiler_errors.parse_compiler_errors`,
and the warnings that name instructions, in `compiler_warnings`.
"""
