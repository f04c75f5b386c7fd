"""`hlo profile`: measured times of a profiler's trace, joined to the instructions of its programs."""
