"""Which orders `reorder` can choose from: XLA's for memory (`memory_scheduler.memory_schedules`) and for latency
(`latency_scheduler.latency_schedules`), over one graph of what an order must keep (`constraints.ScheduleGraph`).
"""
