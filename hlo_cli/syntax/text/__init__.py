"""The lenient reader of HLO text: `parser.parse_module`. It keeps what it does not know, notes it when it is asked
(`check.py`), and goes on behind an error. Mirrors xla/hlo/parser/hlo_parser.cc.
"""
