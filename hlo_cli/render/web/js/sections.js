// Which function draws which section: `(section, page) => void`, see store.js. A section that is missing here shows
// its tables one below the other.

import {drawMemorySection} from "./memory.js";

export const SECTION_DRAWERS = {
  memory: drawMemorySection,
};
