"""Time of kernels on a chip: `predicted_time.KernelTimes` predicts it, on a GPU by XLA's own model
(`gpu_kernels.gpu_kernels`) if the kernel is one that XLA generates.
"""
