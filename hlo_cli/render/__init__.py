"""Rendering of reports: `registry.renderer` selects the format, one function each under `formats`; `draw` lays out
text, `web` makes HTML and SVG.
"""
