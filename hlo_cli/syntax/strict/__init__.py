"""Token-by-token checks of what XLA's own parser accepts: `module.check_strictly`. Mirrors
xla/hlo/parser/hlo_parser.cc.
"""
