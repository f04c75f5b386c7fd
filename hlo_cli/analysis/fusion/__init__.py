"""Fusions and kernels. `kernels.kernels_of` and `kernels.fusions_of` list them, `fusion_bodies.verify_fusions`
checks XLA's rules. Whether two operations are fused: on CPU `cpu_rules.FusionDecider`, on GPU
`gpu_rules.GpuFusionRules` by the times of `gpu_model.KernelModel`, both on the graph of `mutable_graph`;
`unfused_pairs.unfused_pairs` lists pairs that are not.
"""
