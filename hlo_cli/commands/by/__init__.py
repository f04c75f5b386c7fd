"""`--by`: the costs of a program, summed up by source line, named scope, argument, or compiler pass."""
