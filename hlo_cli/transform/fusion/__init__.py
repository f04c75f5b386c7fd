"""Which fusions a compiler would make, and the module with them: `cpu_fusion.fuse` and `gpu_fusion.gpu_fuse` decide as
XLA does, `by_request.fuse_pair` and `by_request.unfuse` as a user asks.
"""
