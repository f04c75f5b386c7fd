// The bar below the head: links to the sections, the search, and the theme. The head itself is in the page's HTML.

import {byId} from "./dom.js";
import {searchField} from "./search.js";
import {themeButton} from "./theme.js";

export function drawNavigation(page, sections) {
  const bar = byId("nav").firstElementChild;
  const links = [...bar.querySelectorAll(".links a")];
  bar.append(searchField(page.store, links), themeButton());
  markCurrent(sections, links);
}

// The link of the section at the top of the window is the current one.
function markCurrent(sections, links) {
  const observer = new IntersectionObserver(
    entries => {
      for (const entry of entries) if (entry.isIntersecting) setCurrent(entry.target.id, links);
    },
    {rootMargin: "-60px 0px -75% 0px"},
  );
  for (const section of sections) observer.observe(section.element);
}

function setCurrent(key, links) {
  for (const link of links) {
    if (link.hash !== `#${key}`) link.removeAttribute("aria-current");
    else link.setAttribute("aria-current", "true");
  }
}
