"""What MLIR programs are that dumps carry inside of instructions: the bodies of Pallas kernels, in MLIR's bytecode.

`bytecode.read_bytecode` reads the bytes, with the tables of `bytecode_table`; `mlir_operations` has what they contain
and its text, `mlir_values` types, attributes, and locations. Mirrors mlir/lib/Bytecode and mlir/lib/IR. Nothing here
knows a dialect, so what each operation means is for the analyses.
"""
