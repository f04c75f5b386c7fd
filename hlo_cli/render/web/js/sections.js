// Which function draws which section: `(section, page) => void`, see store.js. A section that is missing here shows
// its tables one below the other.

import {drawKernelsSection} from "./kernels.js";
import {drawMemorySection} from "./memory.js";

export const SECTION_DRAWERS = {
  memory: drawMemorySection,
  kernels: drawKernelsSection,
};
