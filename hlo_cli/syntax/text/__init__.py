"""The lenient reader of HLO text: `parser.parse_module`. It keeps unknown parts, notes them on demand (`check.py`), and
continues after errors. Mirrors xla/hlo/parser/hlo_parser.cc.
"""
