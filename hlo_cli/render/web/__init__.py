"""Parts of a report as HTML and SVG, without scripts from elsewhere: `page.page` and `interactive.interactive_page`
write pages, `html_parts.part_lines` a part, `charts.document` a picture. Scripts and styles are in `js` and `css`.
"""
