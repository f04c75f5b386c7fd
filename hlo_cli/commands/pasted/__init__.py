"""Answers to texts that are not modules: errors and warnings of compilers, diffs, shapes, and shardings.

Any command that is given such a text shows the answer of `answer.answer_error` instead of an error.
"""
