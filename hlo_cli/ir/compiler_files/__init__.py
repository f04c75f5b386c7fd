"""The contents of compilers' files next to a dump: `buffers.BufferAssignment`, `live_ranges.DumpedLiveRanges`,
`usage_report.MemoryUsageReport`, and the out-of-memory error, `out_of_memory.OutOfMemory`.
"""
