"""Values that print exactly as XLA prints them: `module.Module`, `instruction.Computation`, `instruction.Instruction`,
`shape.ArrayShape`, `layout.Layout`; and what compilers write next to them: `buffer_assignment.BufferAssignment`,
`out_of_memory.OutOfMemory`. Slotted, read-only, with most parts of an instruction read on demand. Mirrors xla/hlo/ir.
"""
