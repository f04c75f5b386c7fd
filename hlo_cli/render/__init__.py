"""Reports to bytes: `registry.renderer` finds the format, one file under `formats` each; `draw` lays out text, `web`
makes HTML and SVG.
"""
