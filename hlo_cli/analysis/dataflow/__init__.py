"""Which value is at which position, who uses it, and when and how often it runs: `dependencies.users_of`,
`executions.executions_of`, `flat_schedule.flat_schedule`, `value_sets.Dataflow`, and `value_sets.AliasSets`.
"""
