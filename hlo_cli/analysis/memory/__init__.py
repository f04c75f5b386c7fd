"""What fills memory, and what would lower its peak: `memory_analysis.memory_analysis` goes from a module to its
live values, allocations and peaks, by XLA's rules of aliasing, sharing and buffer assignment;
`peak_advice.suggestions` are the changes that certainly lower the peak, `donation.donatable_bytes` is what
callers could give up.
"""
