"""Fusions and kernels: `fusions.fusions_of` and `kernels.kernels_of` list them, `fusion_verifier.verify_fusions` checks
XLA's rules, `decide.FusionDecider` decides whether two operations are fused, and `unfused_pairs.unfused_pairs` lists
pairs that are not.
"""
