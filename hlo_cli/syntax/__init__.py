"""Text and protos to the IR and back: the lenient reader keeps what it does not know, `strict` takes what XLA's parser
takes, and `opaque.py` marks the instructions that do not hold together before any analysis sees them.
"""
