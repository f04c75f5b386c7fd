"""Graphs of instructions: kinds by which they are colored, what is seen through, neighborhoods, and paths."""
