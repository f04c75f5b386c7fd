"""Answers to prints, tables, values, and files that are not modules, and what such answers consist of.

`commands/pasted` answers messages, and selects the answer to a text.
"""
