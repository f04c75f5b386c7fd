"""Texts that are not a dump: recognized by content, freed of their wrapping, and the HLO in them found with its place.

`read_pasted` is the entry: it returns the modules or parts of modules in a text, or raises `PastedTextError` for a text
that a command can explain although it holds no module, and `HloError` for any other.
"""
