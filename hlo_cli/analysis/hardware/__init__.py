"""Hardware: `target.target_of` determines the target of a module and `chip_specs.chip_in` the chip that a compiler
names; `chips.find_chip` returns the memories of a chip from one row each in `chip_table` (TPUs) and `gpus`,
`chip_specs.chip_spec` its rates and what was measured on it.
"""
