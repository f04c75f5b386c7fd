"""The table of attributes, one row each: `table.attributes_of` an opcode, `table.attribute_named`,
`table.HEADER_ATTRIBUTES`. The fields of a row are in `row.AttributeRow`. Adding an attribute is adding a row.
"""
