"""What each opcode computes: a function of numpy arrays, made from the attributes of an instruction.

Public: `rules.rule_of` returns the rule of an instruction; `typed_values.settle` makes of an array values of an
element type.
"""
