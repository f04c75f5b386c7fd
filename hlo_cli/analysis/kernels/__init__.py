"""What Pallas kernels for TPUs hold, read, write, and compute, from the text of a compiled module alone.

`pallas_kernels.pallas_kernels_of` answers for a module; `kernel_body` reads the MLIR in a custom call, `index_maps` has
which blocks a grid visits, `kernel_memory` which memory that takes, `kernel_work` the operations that are computed, and
`scalar_code` the numbers that all of them depend on.
"""
