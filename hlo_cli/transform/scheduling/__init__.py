"""The schedulers behind `reorder`: XLA's for memory (`memory_scheduler.memory_schedules`) and for latency
(`latency_hiding_scheduler.latency_schedules`), over one graph of what an order must keep (`graph.Graph`).
"""
