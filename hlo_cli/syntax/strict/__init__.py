"""What XLA's own parser takes and rejects, token by token: `module.check_strictly`. Mirrors
xla/hlo/parser/hlo_parser.cc.
"""
