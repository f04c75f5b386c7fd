"""Readers of attribute values: `attribute_values.read_attribute_value` by the grammar of its kind, from the table
`attribute_values.GRAMMARS`, and `attribute_values.read_header` for a module. pyparsing is imported when a prose value
is read.
"""
