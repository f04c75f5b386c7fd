"""The rules, by hundred: what is invalid (HLO0xx) in three chapters; padding, copies, kernels (1, 3, 8) in `traffic`,
memory (2) in `memory`, overlap (4) in `overlap`, what devices exchange or all hold (5, 6) in `communication`, types (7)
in `numerics`, assertions (90) in `expectations`. The docstring of a rule is its page in `hlo lint --explain`.
"""
