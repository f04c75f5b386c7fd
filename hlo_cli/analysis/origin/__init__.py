"""Where an instruction comes from: `origins.origins_of` gives, for each instruction, the op_name, the stack of calls
in the user's program, and the argument that it is made from; `scopes.generalize` makes names of repeated layers equal;
`passes.first_dumps` finds the pass that made it, and `original.original_array` the array that XLA recorded.
"""
