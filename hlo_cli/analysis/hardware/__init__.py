"""What a machine is: `target.target_of` reads it from a module, `chips.find_chip` gives the memory of a chip and
`chip_specs.chip_spec` its rates, `buffer_sizes.buffer_bytes` and `default_tiles.default_layout` what its compiler makes
of a shape.
"""
