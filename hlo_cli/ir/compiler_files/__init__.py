"""What compilers write next to a dump: `buffers.BufferAssignment`, `live_ranges.DumpedLiveRanges`,
`usage_report.MemoryUsageReport`, and the error of memory that does not suffice, `out_of_memory.OutOfMemory`.
"""
