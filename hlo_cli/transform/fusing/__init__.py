"""The passes of `fuse`: `instruction_fusion.InstructionFusion` and `multi_output_fusion.MultiOutputFusion` decide
as the CPU compiler does, `rebuild.rebuild` writes the module anew.
"""
