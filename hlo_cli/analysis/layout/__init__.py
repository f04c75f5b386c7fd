"""Where an element is, and what padding costs: `addresses.element_at` and `addresses.linear_index` for one,
`address_map.address_map` and `inverse_map.inverse_map` for whole arrays, `steps.layout_steps` explained,
`padding.footprints` for a module.
"""
