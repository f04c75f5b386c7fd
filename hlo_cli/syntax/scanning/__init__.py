"""Where things in a text end: `scanner.Scanner` for words, strings and brackets, `tokens.Tokens` as XLA's lexer has
them, `shapes.read_shape`, `attributes.read_attributes` without knowing what they mean.
Mirrors xla/hlo/parser/hlo_lexer.h.
"""
