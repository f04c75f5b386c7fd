"""The passes behind `fuse`: `instruction_fusion.Pass` and `multi_output_fusion.MultiOutputPass` decide as the CPU
compiler does, `rebuild.written` writes the module anew.
"""
