"""Lint rules: `run.lint_module` runs those that `catalog.selected_rules` selects, each a function under `rules`,
registered by `registry.rule`.
"""
