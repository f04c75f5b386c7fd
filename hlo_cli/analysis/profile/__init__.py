"""What traces say about the instructions that ran: `measure.measure` joins events to them, `measure.measures` sums
their times, and `profile_diff.compare_profiles` matches the kernels of two profiles by the differences of their
programs.
"""
