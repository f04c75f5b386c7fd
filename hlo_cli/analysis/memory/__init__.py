"""What fills memory: `memory_analysis.memory_analysis` goes from a module to its live values, allocations and peaks
(`memory_model.MemoryAnalysis`), by XLA's rules of aliasing, sharing and buffer assignment.
"""
