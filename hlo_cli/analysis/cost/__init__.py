"""Costs of instructions: `cost_analysis.cost_analysis` follows XLA's cost analysis with a rule for each opcode in
`opcode_costs`, `cost_analysis.costs_of_kernels` has those of kernels, and `matmuls.matmuls_of` finds matmuls in
every form.
"""
