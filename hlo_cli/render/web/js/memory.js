// The section of memory.

import {element} from "./dom.js";

export function drawMemorySection(section, page) {
  section.body.append(element("p", {text: page.store.state.space}));
}
