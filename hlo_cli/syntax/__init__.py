"""Text and protos to the IR and back: the lenient reader keeps unknown parts, `strict` accepts what XLA's parser
accepts, and `opaque.py` marks malformed instructions before any analysis sees them.
"""
