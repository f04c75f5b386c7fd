"""Smaller modules that still fail: `draft.draft_of` makes lines of a module, `steps.STEPS` are what may be taken away,
`cuts.cuts` take parts whose values are known, and `search.Search` tries both until no single step keeps the failure.
"""
