"""Token boundaries in a text: `scanner.Scanner` for words, strings, and brackets, `tokens.Tokens` as in XLA's lexer,
`shape_reader.read_shape`, and `attributes.read_attributes` without interpreting values.
Mirrors xla/hlo/parser/hlo_lexer.h.
"""
