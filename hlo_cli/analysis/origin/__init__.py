"""Where an instruction comes from: `origins.origins_of` gives, for each instruction, the op_name, the stack of calls
in the user's program, and the argument that it is made from, inferred by `inferred_origins` where the text lacks
them; `scopes_and_moves.generalize` makes names of repeated layers equal; `origins.first_dumps` finds the pass that
made it, and `inferred_origins.original_array` the array that XLA recorded.
"""
