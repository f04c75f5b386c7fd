"""Hardware: `target.target_of` determines the target of a module, `chips.find_chip` returns the memories of a chip and
`chip_specs.chip_spec` its rates, `buffer_sizes.buffer_bytes` and `default_tiles.default_layout` follow its compiler.
"""
