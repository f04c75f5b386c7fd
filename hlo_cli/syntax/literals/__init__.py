"""The values of constants, parsed and printed: `read.literal_at`, `printing.array_text`, and `byte_values` for protos.
Mirrors the literals of xla/hlo/parser/hlo_parser.cc and xla/literal.cc.
"""
