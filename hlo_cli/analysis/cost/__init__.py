"""How much work instructions are: `cost_analysis.cost_analysis` counts as XLA's cost analysis does,
`matmuls.matmuls_of` finds matrix products however they are written, `roofline.roofline` bounds the time on a chip.
"""
