"""Lint rules: `run.lint_module` runs those that `run.selected_rules` selects, each a function under `rules`, registered
by `rule.rule`, which gets a `rule.LintContext`.
"""
