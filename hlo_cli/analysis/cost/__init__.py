"""Costs of instructions: `cost_analysis.cost_analysis` follows XLA's cost analysis, `matmuls.matmuls_of` finds matmuls
in every form, and `roofline.roofline` bounds the time on a chip.
"""
