"""Which value is at which position, who uses it, and when and how often it runs: `value_sets.Dataflow`,
`alias_sets.AliasSets`, `users.users_of`, `flat_schedule.flat_schedule`, `executions.executions_of`.
"""
