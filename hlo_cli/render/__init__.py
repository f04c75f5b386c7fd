"""Rendering of reports: `registry.renderer` selects the format, one file each under `formats`; `draw` lays out text,
`web` makes HTML and SVG.
"""
