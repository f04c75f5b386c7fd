"""Hardware: `target.target_of` determines the target of a module and `chip_specs.chip_in` the chip that a compiler
names; `chips.find_chip` returns the memories of a chip from one row each in `chip_table` (TPUs) and `gpus`,
`chip_specs.chip_spec` its peak rates, `gpu_devices.gpu_device` the figures of a GPU in XLA's cost model, and
`time_model` holds what was measured: times, constants, and the bands of estimates.
"""
