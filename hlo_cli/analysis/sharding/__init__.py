"""Shardings and collectives: what each device holds (`placement.placement_of`), what travels along which axis of
the mesh (`collectives.collectives_of`), and what the partitioner does from one sharding to another
(`reshard.reshard`).
"""
