"""Values that print exactly as XLA prints them: `module.Module`, `instruction.Computation`, `instruction.Instruction`,
`shape.ArrayShape`, `layout.Layout`; slotted, read-only, most of an instruction read when it is asked for. Mirrors
xla/hlo/ir and xla/shape.h.
"""
