"""Module to module, each the compiler's own step or a question of the kind "what if": `fuse.fuse`, `unfuse.unfuse`,
`reorder.reorder`, `desugar.desugar`, `extract.extract`, `normalize.normalize`. No rewrite changes a result:
`in_place.remarks_on` is the law.
"""
