"""Module to module, each the compiler's own step or a question of the kind "what if": `sugar.desugar`,
`reorder.reorder`, `extract.extract`, `normalize.normalize`; `fusion` has the fusions, `schedule` the schedulers. No
rewrite changes a result: `in_place_hazards.fix_in_place_hazards` is the law.
"""
