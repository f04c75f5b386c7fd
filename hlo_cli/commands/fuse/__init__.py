"""`hlo fuse`: fusions, the memory traffic that they avoid, and the cost of every instruction."""
