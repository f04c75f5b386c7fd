"""The rules, by hundred: what is invalid (HLO0xx) in three files that are named so, what is wasted from HLO1xx on. The
docstring of a rule is its page in `hlo lint --explain`.
"""
