// Bars over steps or time, in lanes: zoom, pan, and search, with the pointer and with the keyboard.
//
// A picture is complete without this script; `data-spans` has its frame, `{left, width, parts, seconds, bottom}`, and
// `data-t` of each bar its first part, its last one, and the first part that is exposed. Both forms of a picture, the
// wide and the narrow one, show the same stretch.

import {element} from "./dom.js";
import {drawSpans, zoomablePicture} from "./spans_picture.js";
import {formatCount} from "./units.js";

const MOST_ZOOM = 1e5; // a tenth of a microsecond of ten milliseconds fills the picture
const STEP = 1.6; // of one press of a key
const WHEEL = 0.0022; // of a notch of 100: a fifth
const PAN = 0.15; // of the stretch in sight
const DRAGGED = 3; // pixels, from which a press is not a click
const FOUND_PARTS = 8; // a bar that is searched takes at least one part in this many of the picture
const HELP = "+ and \u2212 or Ctrl + wheel zoom, \u2190 \u2192 or dragging pan, 0 shows all, n the next bar found";

export function makeZoomable(figure) {
  const pictures = [...figure.querySelectorAll("svg[data-spans]")].map(zoomablePicture);
  if (!pictures.length) return;
  const timeline = new Timeline(figure, pictures);
  timeline.draw();
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
    for (const name of ["pointerup", "pointercancel"]) {
      svg.addEventListener(name, event => downs.delete(event.pointerId));
    }
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
    for (const picture of this.pictures) drawSpans(picture, this.view);
  }
}
