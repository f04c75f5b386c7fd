"""Reshards: the steps from one sharding of an array to another, and shardings that need none or cheaper ones."""
