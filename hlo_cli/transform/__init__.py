"""Module to module, each the compiler's own step or a question of the kind "what if": `fuse.fuse`, `unfuse.unfuse`,
`reorder.reorder`, `desugar.desugar`, `extract.extract`, `normalize.normalize`. No rewrite changes a result:
`in_place.fix_in_place_hazards` is the law.
"""
