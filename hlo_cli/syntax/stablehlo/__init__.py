"""Which HLO a StableHLO text is: the operations of MLIR that JAX, torchax, PyTorch/XLA, and Reactant print.

`scanning` and `grammar` read MLIR, `values` its types and attributes, `conversion` and `regions` map operations to HLO,
and `read_stablehlo` assembles the module.
"""
