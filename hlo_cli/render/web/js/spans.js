// Bars over steps or time, in lanes: zoom, pan, and search, with the pointer and with the keyboard.
//
// A picture is complete without this script; `data-spans` has its frame, `{left, width, parts, seconds, bottom}`, and
// `data-t` of each bar its first part, its last one, and the first part that is exposed. Both forms of a picture, the
// wide and the narrow one, show the same stretch.

import {element, svgElement} from "./dom.js";
import {formatCount, formatScaled} from "./units.js";
import {TIME_UNITS, tickDistance} from "./ticks.js";

const MIN_BAR = 1.5; // pixels; a shorter bar would be invisible
const MOST_ZOOM = 1e5; // a tenth of a microsecond of ten milliseconds fills the picture
const STEP = 1.6; // of one press of a key
const WHEEL = 0.0022; // of a notch of 100: a fifth
const PAN = 0.15; // of the stretch in sight
const GAP = 0.5; // pixels, so that bars that follow each other are told apart
const DRAGGED = 3; // pixels, from which a press is not a click
const GLYPH = 6.4; // pixels of a character of a name
const NAMED = 11; // pixels: the least height of a bar with its name on it
const FOUND_PARTS = 8; // a bar that is searched takes at least one part in this many of the picture
const HELP = "+ and \u2212 or Ctrl + wheel zoom, \u2190 \u2192 or dragging pan, 0 shows all, n the next bar found";

export function makeZoomable(figure) {
  const pictures = [...figure.querySelectorAll("svg[data-spans]")].map(pictureOf);
  if (!pictures.length) return;
  const timeline = new Timeline(figure, pictures);
  timeline.draw();
}

function pictureOf(svg) {
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

class Timeline {
  constructor(figure, pictures) {
    this.pictures = pictures;
    this.parts = pictures[0].frame.parts;
    this.view = [0, this.parts];
    this.words = [];
    this.at = -1;
    this.status = element("output", {"aria-live": "polite"});
    this.help = element("span", {class: "quiet", text: HELP});
    figure.prepend(this.tools());
    for (const picture of pictures) this.listen(picture);
    document.addEventListener("filtered", ({detail}) => this.search(detail.query));
    document.addEventListener("find-next", () => this.showNext());
  }

  tools() {
    const button = (text, label, onclick) => element("button", {type: "button", "aria-label": label, text, onclick});
    return element(
      "p", {class: "zoom"},
      button("+", "Zoom in", () => this.zoom(STEP ** 2)), button("\u2212", "Zoom out", () => this.zoom(STEP ** -2)),
      button("\u2190", "Earlier", () => this.pan(-PAN)), button("\u2192", "Later", () => this.pan(PAN)),
      button("all", "Show all", () => this.show(0, this.parts)), this.status, this.help,
    );
  }

  listen(picture) {
    const {svg} = picture;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("keydown", event => this.key(event));
    svg.addEventListener("wheel", event => this.wheel(event, picture), {passive: false});
    svg.addEventListener("dblclick", event => this.zoomTo(event, picture));
    this.drag(picture);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), w: () => this.zoom(STEP),
      "-": () => this.zoom(1 / STEP), s: () => this.zoom(1 / STEP),
      ArrowLeft: () => this.pan(-PAN), a: () => this.pan(-PAN), ArrowRight: () => this.pan(PAN), d: () => this.pan(PAN),
      0: () => this.show(0, this.parts), Home: () => this.show(0, this.parts),
      n: () => this.showNext(), Enter: () => this.showNext(),
    };
    if (!(event.key in acts)) return;
    acts[event.key]();
    event.preventDefault();
  }

  // The page scrolls with the wheel alone.
  wheel(event, picture) {
    const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * WHEEL), this.partAt(event, picture));
    else if (isAcross) this.pan((event.deltaX || event.deltaY) / (picture.frame.width || 1));
    else return;
    event.preventDefault();
  }

  // Twice on a bar shows it, elsewhere zooms in.
  zoomTo(event, picture) {
    const bar = picture.bars.find(each => each.group === event.target.closest("[data-t]"));
    if (bar) this.show(bar.start - (bar.end - bar.start) / 4, bar.end + (bar.end - bar.start) / 4);
    else this.zoom(STEP ** 3, this.partAt(event, picture));
  }

  // One pointer drags, two zoom.
  drag(picture) {
    const {svg} = picture;
    const downs = new Map();
    let moved = 0;
    svg.addEventListener("pointerdown", event => {
      downs.set(event.pointerId, event.clientX);
      moved = 0;
    });
    svg.addEventListener("pointermove", event => {
      if (!downs.has(event.pointerId)) return;
      const scale = svg.getScreenCTM().a;
      const [before, other] = [downs.get(event.pointerId), [...downs].find(([id]) => id !== event.pointerId)?.[1]];
      downs.set(event.pointerId, event.clientX);
      moved += Math.abs(event.clientX - before);
      if (moved > DRAGGED && !svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      if (other === undefined) this.pan(-(event.clientX - before) / scale / picture.frame.width);
      else this.zoom(Math.max(1, Math.abs(event.clientX - other)) / Math.max(1, Math.abs(before - other)));
    });
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, event => downs.delete(event.pointerId));
    svg.addEventListener("click", event => moved > DRAGGED && event.stopPropagation(), {capture: true});
  }

  partAt(event, {svg, frame}) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const [from, to] = this.view;
    return from + Math.min(1, Math.max(0, (at.x - frame.left) / frame.width)) * (to - from);
  }

  zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
    const [from, to] = this.view;
    this.show(around - (around - from) / factor, around + (to - around) / factor);
  }

  pan(share) {
    const distance = share * (this.view[1] - this.view[0]);
    this.show(this.view[0] + distance, this.view[1] + distance);
  }

  // A stretch within the whole, not narrower than the zoom goes.
  show(from, to) {
    const wide = Math.min(this.parts, Math.max(to - from, this.parts / MOST_ZOOM));
    const start = Math.min(Math.max((from + to - wide) / 2, 0), this.parts - wide);
    this.view = [start, start + wide];
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  search(query) {
    this.words = query.toLowerCase().split(/\s+/).filter(Boolean);
    this.at = -1;
    for (const {bars} of this.pictures) {
      for (const bar of bars) bar.group.classList.toggle("dim", !this.matches(bar));
    }
    const {bars} = this.pictures[0];
    const found = bars.filter(bar => this.matches(bar)).length;
    this.status.textContent = this.words.length ? `${formatCount(found)} of ${formatCount(bars.length)} bars` : "";
  }

  matches(bar) {
    return this.words.every(word => bar.words.includes(word));
  }

  // The next bar that matches, in the middle and wide enough to be seen.
  showNext() {
    if (!this.words.length) return;
    const found = this.pictures[0].bars.filter(bar => this.matches(bar)).sort((a, b) => a.start - b.start);
    if (!found.length) return;
    this.at = (this.at + 1) % found.length;
    const bar = found[this.at];
    const middle = (bar.start + bar.end) / 2;
    const wide = Math.min(this.view[1] - this.view[0], (bar.end - bar.start) * FOUND_PARTS);
    this.show(middle - wide / 2, middle + wide / 2);
    for (const {bars} of this.pictures) {
      for (const each of bars) each.group.classList.toggle("lit", each.name === bar.name && each.start === bar.start);
    }
    this.status.textContent = `${bar.name}, ${formatCount(this.at + 1)} of ${formatCount(found.length)}`;
  }

  draw() {
    for (const picture of this.pictures) drawPicture(picture, this.view);
  }
}

function drawPicture({svg, frame, bars, ticks, loops}, [from, to]) {
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
  if (ticks) drawTicks(ticks, frame, from, to);
  svg.dataset.view = `${from} ${to}`;
}

function setSpan(rect, from, to) {
  if (!rect) return;
  rect.setAttribute("x", from.toFixed(1));
  rect.setAttribute("width", Math.max(to > from ? 0.5 : 0, to - from - GAP).toFixed(1));
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
function drawTicks(ticks, {left, width, parts, seconds, bottom}, from, to) {
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
