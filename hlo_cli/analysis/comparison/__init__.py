"""Whether two modules compute the same, and the first instruction at which they part.

Public: `comparison.compare_runs` compares two modules, `extracted_part.compare_part` a module and a part of it.
"""
