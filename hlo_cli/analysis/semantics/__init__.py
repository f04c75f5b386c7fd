"""What each opcode computes: a function of numpy arrays, made from the attributes of an instruction.

Public: `rules.rule_of` returns the rule of an instruction; `number_types` holds every element type in numpy arrays.
"""
