"""Where an element is, and what padding costs: `addresses.element_at` and `addresses.linear_index` for one,
`address_map.address_map` and `address_map.inverse_map` for whole arrays, `layout_steps.layout_steps` explained,
`tpu_layout.default_tpu_layout` as the TPU compiler chooses it, `buffer_sizes.buffer_bytes` and
`buffer_sizes.footprints` in bytes, with what compilers add; the arithmetic of tiles is that of shapes, in
`ir/layout.py`.
"""
