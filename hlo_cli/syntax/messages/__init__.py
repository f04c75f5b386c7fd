"""Readers of messages of XLA: errors, and warnings about resharding and slow operations."""
