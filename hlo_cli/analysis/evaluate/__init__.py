"""What a module computes: the value of every instruction for given arguments, without XLA.

Public: `run.evaluate` runs a module; `arguments.made_up_arguments` makes arguments by type and seed.
"""
