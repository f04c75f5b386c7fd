"""What was fused, and what would be: `fusions.fusions_of` and `kernels.kernels_of` list them,
`fusion_verifier.verify_fusions` holds XLA's rules, `decide.FusionDecider` says why two operations fuse or not,
`unfused_pairs.unfused_pairs` which do not.
"""
