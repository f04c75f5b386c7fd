"""Shardings and collectives: what each device holds, and what travels along which axis of the mesh."""
