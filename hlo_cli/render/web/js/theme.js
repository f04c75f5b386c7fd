// The switch between the light and the dark theme; the page begins with the reader's own, and stores nothing.

import {element} from "./dom.js";

const PREFERS_DARK = "(prefers-color-scheme: dark)";

// A button that switches; it calls `changed` when the colors are others, also when the reader's system changes them.
export function themeButton(changed = () => {}) {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia(PREFERS_DARK).matches ? "dark" : "light")) === "dark";
  const button = element("button", {type: "button", class: "theme", text: "\u25d0"});
  const label = () => {
    const text = isDark() ? "Switch to light theme" : "Switch to dark theme";
    button.setAttribute("aria-label", text);
    button.title = text;
  };
  const update = () => {
    label();
    changed();
  };
  button.onclick = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    update();
  };
  matchMedia(PREFERS_DARK).addEventListener("change", update);
  label();
  return button;
}
