"""How much work instructions are: `cost_analysis.cost_analysis` counts as XLA's cost analysis does,
`matmuls.matmuls_of` finds matmuls in every form, `roofline.roofline` bounds the time on a chip.
"""
