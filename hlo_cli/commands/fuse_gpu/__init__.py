"""Fusions of XLA:GPU in `hlo fuse`: what it decided or would decide, for which chip, and why."""
