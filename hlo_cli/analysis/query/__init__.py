"""Which instructions are meant, and what a module is in numbers: `where.predicate` compiles the conditions of
`--where`, `assertions.check_assertions` those of `--expect`; `module_summary.module_summary` and
`module_summary.program_stage` describe a module.
"""
