"""Graphs of instructions: `views.dataflow_graph` has the nodes, `views.kinds_of` the kinds by which they are
colored; `marked_changes` marks what changed since another module.
"""
