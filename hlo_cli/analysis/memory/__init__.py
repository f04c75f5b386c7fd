"""What fills memory, and what would lower its peak: `memory_analysis.memory_analysis` goes from a module to its
live values, allocations and peaks, by XLA's rules of aliasing, sharing and buffer assignment;
`peak_advice.suggestions` are the changes that certainly lower the peak, `donation.donatable_bytes` is what
callers could give up. After an out-of-memory message, `oom_advice.advice_of` derives from its text what to do, and
`oom_dump_comparison.compare` holds it next to a dump of its program.
"""
