"""Shapes in all commands that take or explain one: `argument.NamedShape` for one of a dump, and its text, words, and
drawing in `explained`.
"""
