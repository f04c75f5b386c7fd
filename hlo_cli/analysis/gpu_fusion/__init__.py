"""XLA:GPU's priority fusion and multi-output fusion: `model.KernelModel` estimates times of kernels, and
`rules.GpuFusionRules` says whether two instructions may be fused.
"""
