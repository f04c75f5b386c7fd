"""Values that print exactly as XLA prints them: `module.Module`, `instruction.Computation`, `instruction.Instruction`,
`shape.ArrayShape`, `layout.Layout`; slotted, read-only, with most parts of an instruction read on demand. Mirrors
xla/hlo/ir and xla/shape.h.
"""
