"""Where an instruction comes from: `origins.origins_of` gives, for each instruction, the op_name, the stack of calls
in the user's program, and the argument that it is made from; `scopes.generalize` makes names of repeated layers equal.
"""
