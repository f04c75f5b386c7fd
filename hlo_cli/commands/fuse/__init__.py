"""`hlo fuse`: fusions, the memory traffic that they avoid, the cost of every instruction, and what XLA would fuse."""
