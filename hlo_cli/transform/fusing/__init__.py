"""Fusion passes: `instruction_fusion.InstructionFusion` and `multi_output_fusion.MultiOutputFusion` decide as the CPU
compiler does, and `rebuild.rebuild` builds the changed module.
"""
