"""Smaller modules that still fail: `draft.draft_of` makes lines of a module, `steps.STEPS` are what may be taken away,
and `search.Search` tries it until no single step keeps the failure.
"""
