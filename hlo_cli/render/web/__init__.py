"""Parts of a report as HTML and SVG, without scripts from elsewhere: `page.page_css`, `parts.part_lines`,
`picture.document`.
"""
