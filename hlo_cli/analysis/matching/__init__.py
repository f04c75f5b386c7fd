"""Differences of two modules: `module_diff.diff` pairs instructions by structure and content, refines the pairs
by local search, and lists what was added, removed, changed, and moved.
"""
