"""What the body of a Pallas kernel computes: its grid, its windows, and the operations of its Mosaic program.

Public: `grid.kernel_of_call` makes the function of a call, `grid.problem_of_call` says what cannot be evaluated.
"""
