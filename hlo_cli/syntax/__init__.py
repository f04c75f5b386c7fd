"""Text and protos to the IR and back: the lenient reader, `text`, keeps unknown parts, `strict_reader.check_strictly`
accepts what XLA's parser accepts, and `opaque.py` marks malformed instructions before any analysis sees them. All that
is known of an attribute is its row, `attribute_table.AttributeRow`; `literal_reading.literal_at` reads constants, and
`conditions.parse_where` and `expectations.read_expectations` the languages of this tool.
"""
