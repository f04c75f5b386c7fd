// The values at the pointer in a chart: step, instruction, live bytes, and the buffer there.

import {byId, element, svgElement} from "./dom.js";

const BYTE_SIGNS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytesText(value) {
  let unit = 0;
  while (value >= 1023.95 && unit < 6) {
    value /= 1024;
    unit++;
  }
  return `${+value.toFixed(1)} ${BYTE_SIGNS[unit]}`;
}

export function showReadouts(svg) {
  const words = new Map();
  // the browser's own tooltips would lie over the readout
  for (const title of svg.querySelectorAll("g > title, path > title")) {
    words.set(title.parentNode, title.textContent);
    title.remove();
  }
  if (!words.size && !svg.querySelector(".track")) return;
  const tracks = [...svg.querySelectorAll("[data-box]")].map(tracked);
  svg.addEventListener("pointerleave", () => {
    hideReadout();
    dimOthers(svg, null);
    tracks.forEach(track => track.cross.removeAttribute("d"));
  });
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const lines = tracks.map(track => stepText(track, at)).filter(Boolean);
    const named = event.target.closest("[data-v], .band");
    if (named && words.has(named)) lines.push(words.get(named));
    dimOthers(svg, event.target.closest("g[data-b]"));
    placeReadout(lines.join("\n"), event);
  });
}

function tracked(track) {
  const cross = svgElement("path", {class: "cross"});
  track.append(cross);
  return {cross, box: track.dataset.box.split(" ").map(Number), steps: JSON.parse(track.dataset.steps)};
}

// What is live at the pointer, with a cross there; nothing outside of the chart.
function stepText({cross, box: [x, y, wide, high], steps}, at) {
  cross.removeAttribute("d");
  if (at.x < x || at.x >= x + wide || at.y < y || at.y > y + high) return "";
  const [step, total, name] = steps[Math.floor((at.x - x) / wide * steps.length)];
  cross.setAttribute("d", `M${at.x} ${y}v${high}M${x} ${at.y}h${wide}`);
  return `step ${step.toLocaleString("en")}${name && `, ${name}`}: ${bytesText(total)} live`;
}

// A row of the legend leaves only its own buffer in full color.
function dimOthers(svg, named) {
  for (const band of svg.querySelectorAll(".areas .band")) {
    const dims = named && band.closest(".track") === named.closest(".track");
    band.classList.toggle("dim", Boolean(dims) && band.dataset.b !== named.dataset.b);
  }
}

function hideReadout() {
  byId("read")?.remove();
}

function placeReadout(text, event) {
  hideReadout();
  if (!text) return;
  const read = element("div", {id: "read", text});
  document.body.append(read);
  const left = event.clientX + 16;
  const over = left + read.offsetWidth > innerWidth;
  read.style.left = `${Math.max(0, over ? event.clientX - 16 - read.offsetWidth : left)}px`;
  read.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - read.offsetHeight))}px`;
}
