// A page of help: it is complete without this script, which searches the pages of the manual and sets the theme.

import {element} from "./dom.js";
import {themeButton} from "./theme.js";

const MOST_MARKS = 2000; // more are not looked at, and take time

function startManual() {
  const sections = [...document.querySelectorAll("main > section")];
  const tools = element("div", {class: "tools"});
  if (sections.length > 1) tools.append(...createManualSearch(sections));
  tools.append(themeButton());
  document.querySelector("header").append(tools);
  document.documentElement.dataset.ready = Math.round(performance.now());
}

// The search field, which / reaches and Escape empties, and the number of pages that have all its words.
function createManualSearch(sections) {
  const words = {placeholder: "Search the manual ( / )", "aria-label": "Search the manual"};
  const field = element("input", {type: "search", ...words});
  const count = element("output", {"aria-live": "polite"});
  const pages = sections.map(section => [section, section.textContent.toLowerCase()]);
  field.oninput = () => {
    const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = pages.filter(([, text]) => asked.every(word => text.includes(word))).map(([section]) => section);
    showFound(sections, new Set(found));
    markWords(found, asked);
    count.textContent = asked.length ? `${found.length} of ${sections.length} pages` : "";
    scrollTo(0, 0);
  };
  document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target !== field && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "Escape" && event.target === field) {
      field.value = "";
      field.oninput();
      field.blur();
    }
  });
  return [count, field];
}

// Hides the other pages and their entries in the contents.
function showFound(sections, found) {
  for (const section of sections) {
    section.hidden = !found.has(section);
    const entry = document.querySelector(`nav a[href="#${CSS.escape(section.id)}"]`)?.parentElement;
    if (entry) entry.hidden = section.hidden;
  }
  for (const group of document.querySelectorAll("nav > div")) {
    group.hidden = !group.querySelector("li:not([hidden])");
  }
}

// Marks the words where they are, without changing the text; browsers that cannot do without.
function markWords(sections, words) {
  if (!globalThis.Highlight) return;
  const ranges = words.length ? sections.flatMap(section => rangesIn(section, words)) : [];
  CSS.highlights.set("found", new Highlight(...ranges.slice(0, MOST_MARKS)));
}

function rangesIn(section, words) {
  const ranges = [];
  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.toLowerCase();
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + word.length);
        ranges.push(range);
      }
    }
  }
  return ranges;
}

startManual();
