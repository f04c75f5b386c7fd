"""The common parts of pages: the style, and a script that sorts tables and shows values of timelines at the pointer.

Without the script, the page is complete but static.
"""

from __future__ import annotations

import json
from typing import Final

from hlo_cli.render.web.colors import DARK, LIGHT, picture_css, roles
from hlo_cli.report.numbers import BYTE_UNITS

_VARIABLES: Final = ":root{{" + "".join(f"--{name}:{{{name}}};" for name in LIGHT._fields) + "}}"

_PAGE: Final = """\
:root{color-scheme:light dark;--code:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
body{font:14px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;color:var(--ink);
background:var(--paper);max-width:1120px;margin:2em auto;padding:0 1em}
h1{font-size:1.3em;line-height:1.35}
h2{font-size:1.05em;margin:1.6em 0 .4em}
div{overflow-x:auto;margin:1em 0}
div.long{max-height:75vh;overflow:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.12em .8em .12em 0;text-align:left;vertical-align:top;font-size:13px}
td{overflow-wrap:break-word}
th{font-weight:500;color:var(--quiet);white-space:nowrap}
th i{font-style:normal;opacity:.75}
td.number{text-align:right;white-space:nowrap}
td.code{overflow-wrap:anywhere;min-width:12em}
thead th{position:sticky;top:0;background:var(--paper);border-bottom:1px solid var(--rule);vertical-align:bottom}
tfoot td{border-top:1px solid var(--rule)}
tbody tr:hover{background:color-mix(in srgb,var(--rule) 45%,transparent)}
td b{display:block;height:8px;min-width:2px;margin:6px 0 0;font-size:0;white-space:nowrap;overflow:hidden}
b.overlapped{background:#77aadd}
b.exposed{background:var(--waste)}
.sort th{cursor:pointer}
th[aria-sort=ascending]::after{content:" \\2191"}
th[aria-sort=descending]::after{content:" \\2193"}
pre,.code,.quoted{font-family:var(--code);font-size:13px}
pre{line-height:1.25;overflow-x:auto}
.quoted{overflow-wrap:break-word;line-height:2.4}
ruby{ruby-position:under}
rt{font-size:10px}
figure{margin:1.5em 0;overflow-x:auto}
svg{max-width:100%;height:auto;display:block}
.areas:hover .band:not(:hover),.dim{opacity:.3}
g[data-b]{cursor:default}
#read{position:fixed;pointer-events:none;white-space:pre-line;max-width:36em;padding:.4em .7em;font-size:12px;
background:var(--paper);border:1px solid var(--rule);border-radius:4px;overflow-wrap:anywhere}
@media print{body{margin:0;max-width:none;print-color-adjust:exact;-webkit-print-color-adjust:exact}
div.long{max-height:none;overflow:visible}thead th{position:static}tr{break-inside:avoid}figure{break-inside:avoid}
#read{display:none}}
"""

SCRIPT: Final = """
const number = text => Number(text.replace(/[,%<>\\u00d7\\s]/g, "") || NaN);
const missing = text => text === "-" || text === "?" || text === "";
for (const head of document.querySelectorAll(".sort th")) head.onclick = () => {
  const at = head.cellIndex, body = head.closest("table").tBodies[0];
  const text = row => row.cells[at].textContent;
  const rows = [...body.rows];
  const numeric = rows.every(row => missing(text(row)) || !isNaN(number(text(row))));
  const falls = head.ariaSort ? head.ariaSort === "ascending" : numeric;
  for (const other of head.parentNode.cells) other.ariaSort = null;
  head.ariaSort = falls ? "descending" : "ascending";
  const compare = (a, b) => numeric ? number(a) - number(b) : a.localeCompare(b, "en", {numeric: true});
  rows.sort((a, b) => missing(text(a)) - missing(text(b)) || (falls ? -1 : 1) * compare(text(a), text(b)));
  body.append(...rows);
};
const bytes = value => {
  let unit = 0;
  while (value >= 1023.95 && unit < 6) { value /= 1024; unit++; }
  return `${+value.toFixed(1)} ${BYTE_UNITS[unit]}`;
};
const read = document.createElement("div");
read.id = "read";
for (const svg of document.querySelectorAll("svg.hlo")) {
  for (const title of svg.querySelectorAll(".band > title")) {
    title.parentNode.words = title.textContent;
    title.remove();
  }
  const tracks = [...svg.querySelectorAll(".track")].map(track => {
    const cross = document.createElementNS(svg.namespaceURI, "path");
    cross.setAttribute("class", "cross");
    track.append(cross);
    return {cross, box: track.dataset.box.split(" ").map(Number), steps: JSON.parse(track.dataset.steps)};
  });
  const light = named => {
    for (const band of svg.querySelectorAll(".band")) {
      const dims = named && band.closest(".track") === named.closest(".track");
      band.classList.toggle("dim", !!dims && band.dataset.b !== named.dataset.b);
    }
  };
  svg.onmouseleave = () => { read.remove(); light(); tracks.forEach(track => track.cross.removeAttribute("d")); };
  svg.onmousemove = event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    light(event.target.closest("g[data-b]"));
    read.remove();
    for (const {cross, box: [x, y, wide, high], steps} of tracks) {
      cross.removeAttribute("d");
      if (at.x < x || at.x >= x + wide || at.y < y || at.y > y + high) continue;
      const [step, total, name] = steps[Math.floor((at.x - x) / wide * steps.length)];
      cross.setAttribute("d", `M${at.x} ${y}v${high}M${x} ${at.y}h${wide}`);
      read.textContent = `step ${step.toLocaleString("en")}${name && `, ${name}`}: ${bytes(total)} live`;
      if (event.target.words) read.textContent += `\\n${event.target.words}`;
      document.body.append(read);
      const left = event.clientX + 16, over = left + read.offsetWidth > innerWidth;
      read.style.left = `${Math.max(0, over ? event.clientX - 16 - read.offsetWidth : left)}px`;
      read.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - read.offsetHeight))}px`;
    }
  };
}
""".replace("BYTE_UNITS", json.dumps(BYTE_UNITS))


def page_css() -> str:
    """The style of a page, including pictures.

    >>> "--ink:#1f2328" in page_css()
    True
    """
    light, dark = (_VARIABLES.format_map(scheme._asdict()) for scheme in (LIGHT, DARK))
    by_role = roles().replace("{{", "{").replace("}}", "}")
    for name in LIGHT._fields:
        by_role = by_role.replace(f"{{{name}}}", f"var(--{name})")
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}\n{_PAGE}{by_role}{picture_css()}"
