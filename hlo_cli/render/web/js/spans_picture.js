// The picture of bars over steps or time, drawn for the stretch that is in sight: bars, names on them, and the axis.

import {svgElement} from "./dom.js";
import {TIME_UNITS, tickDistance} from "./ticks.js";
import {formatScaled} from "./units.js";

const MIN_BAR = 1.5; // pixels; a shorter bar would be invisible
const BAR_GAP = 0.5; // pixels, so that bars that follow each other are told apart
const GLYPH = 6.4; // pixels of a character of a name
const NAMED = 11; // pixels: the least height of a bar with its name on it

// What a picture has: its frame, and its bars with their words.
export function zoomablePicture(svg) {
  const frame = JSON.parse(svg.dataset.spans);
  const bars = [...svg.querySelectorAll("[data-t]")].map(group => {
    const [start, end, exposed] = group.dataset.t.split(" ").map(Number);
    const words = `${group.dataset.v} ${group.querySelector("title")?.textContent ?? ""}`.toLowerCase();
    const box = group.querySelector("rect");
    const [y, height] = ["y", "height"].map(name => Number(box?.getAttribute(name)));
    return {group, name: group.dataset.v, words, start, end: end + 1, exposed, y, height};
  });
  return {svg, frame, bars, ticks: svg.querySelector(".ticks"), loops: svg.querySelector(".loops")};
}

// Draws the stretch between two parts of the whole.
export function drawSpans({svg, frame, bars, ticks, loops}, [from, to]) {
  const {left, width, parts} = frame;
  const place = part => left + ((part - from) / (to - from)) * width;
  const within = x => Math.min(Math.max(x, left), left + width);
  const isWhole = from === 0 && to === parts;
  for (const {group, name, start, end, exposed, y, height} of bars) {
    const [begin, finish] = [place(start), Math.max(place(end), place(start) + MIN_BAR)];
    const isIn = finish > left && begin < left + width;
    group.style.display = isIn ? "" : "none";
    if (!isIn) continue;
    const turn = exposed >= end ? finish : Math.max(begin, Math.min(place(exposed), finish));
    setSpan(group.querySelector("rect:not(.exposed)"), within(begin), within(turn));
    setSpan(group.querySelector("rect.exposed"), within(turn), within(finish));
    drawName(group, name, within(begin), within(finish), y, height, isWhole);
  }
  if (loops) loops.style.display = isWhole ? "" : "none";
  if (ticks) drawSpanTicks(ticks, frame, from, to);
  svg.dataset.view = `${from} ${to}`;
}

function setSpan(rect, from, to) {
  if (!rect) return;
  rect.setAttribute("x", from.toFixed(1));
  rect.setAttribute("width", Math.max(to > from ? 0.5 : 0, to - from - BAR_GAP).toFixed(1));
}

// The name on a bar with room for it; pictures of few bars have names next to them, which leave when it is zoomed.
function drawName(group, name, from, to, y, height, isWhole) {
  const fixed = group.querySelector("text:not(.on-bar)");
  if (fixed) fixed.style.display = isWhole ? "" : "none";
  const room = fixed && isWhole ? 0 : Math.floor((to - from - 6) / GLYPH);
  let label = group.querySelector(".on-bar");
  if (room < Math.min(4, name.length) || height < NAMED) return label?.remove();
  if (!label) group.append((label = svgElement("text", {class: "code on on-bar"})));
  label.setAttribute("x", (from + 3).toFixed(1));
  label.setAttribute("y", (y + height / 2 + 4).toFixed(1));
  label.textContent = name.length <= room ? name : `${name.slice(0, room - 1)}\u2026`;
}

// Round numbers below the bars: of steps, or of time in the unit that the end of the stretch has.
function drawSpanTicks(ticks, {left, width, parts, seconds, bottom}, from, to) {
  const whole = seconds || parts;
  const [begin, end] = [(from / parts) * whole, (to / parts) * whole];
  const [unit, factor] = seconds ? TIME_UNITS.find(([, each]) => end * each < 1000) ?? ["s", 1] : ["steps", 1];
  const distance = Math.max(tickDistance((end - begin) * factor, width / 100), seconds ? 0 : 1);
  const drawn = [];
  for (let at = Math.ceil((begin * factor) / distance); at * distance <= end * factor * (1 + 1e-12); at++) {
    const x = left + ((at * distance - begin * factor) / ((end - begin) * factor)) * width;
    const text = tickText(at * distance, distance);
    const isLast = (at + 1) * distance > end * factor * (1 + 1e-12);
    const anchor = x > left + width - 24 ? "end" : "middle";
    const words = isLast ? `${text} ${unit}` : text;
    drawn.push(
      svgElement("path", {class: "bracket", d: `M${x.toFixed(1)} ${bottom}v5`}),
      svgElement("text", {class: `quiet ${anchor}`, x: x.toFixed(1), y: bottom + 17, text: words}),
    );
  }
  ticks.replaceChildren(...drawn);
}

function tickText(value, distance) {
  const decimals = Math.max(0, -Math.floor(Math.log10(distance) + 1e-9));
  return decimals ? value.toFixed(decimals) : formatScaled(Math.round(value));
}
