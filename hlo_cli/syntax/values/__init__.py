"""What the values of attributes say: `attribute_values.read_attribute_value` by the grammar of its kind, of which
`grammars.GRAMMARS` is the table, and `header.read_header` for a module. pyparsing is loaded when prose is read.
"""
