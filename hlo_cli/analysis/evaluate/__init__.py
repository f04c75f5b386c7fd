"""What a module computes for given arguments, without XLA: on one device, or on simulated ones.

Public: `run.run` runs a module, `arguments.made_up_arguments` makes its arguments.
"""
