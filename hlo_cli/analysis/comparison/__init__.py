"""Whether two modules compute the same, and the first instruction at which they part.

Public: `two_runs.compare_runs` compares two modules, `two_runs.compare_part` a module and a part of it.
"""
