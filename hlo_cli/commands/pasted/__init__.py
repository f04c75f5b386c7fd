"""Answers to texts that are not modules: errors and warnings of compilers and frameworks, memory, and diffs.

Any command that is given such a text shows the answer of `answer.answer_error` instead of an error; those to prints,
tables, and values are in `commands/prints`.
"""
