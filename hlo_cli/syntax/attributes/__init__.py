"""All that is known of an attribute, a row each: `table.attributes_of` an opcode, `table.attribute_named`,
`table.HEADER_ATTRIBUTES`. What a row may say is in `row.AttributeRow`. Adding an attribute is adding a row.
"""
