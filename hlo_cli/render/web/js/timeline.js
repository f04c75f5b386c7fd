// The section of the timeline: the picture of events is in the page; here it zooms, and follows search and selection.

import {makeZoomable} from "./spans.js";

export function drawTimelineSection(section, {store}) {
  const figure = section.element.querySelector("figure");
  if (!figure) return;
  makeZoomable(figure);
  section.tools.remove();
  section.body.remove();
  const bars = [...figure.querySelectorAll("[data-t]")];
  figure.addEventListener("click", event => {
    const bar = event.target.closest("[data-t]");
    if (bar) store.show({instruction: bar.dataset.v});
  });
  store.subscribe(changed => {
    if (changed.has("query")) {
      document.dispatchEvent(new CustomEvent("filtered", {detail: {query: store.state.query}}));
    }
    if (!changed.has("selected")) return;
    const name = store.state.selected?.instruction ?? null;
    for (const bar of bars) bar.classList.toggle("lit", bar.dataset.v === name);
  });
}
