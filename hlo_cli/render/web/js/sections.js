// Which function draws which section: `(section, page) => void`, see store.js. A section that is missing here shows
// its tables one below the other.

import {drawKernelsSection} from "./kernels.js";
import {drawMemorySection} from "./memory.js";
import {drawScheduleSection} from "./schedule.js";
import {drawTransfersSection} from "./transfers.js";

export const SECTION_DRAWERS = {
  memory: drawMemorySection,
  schedule: drawScheduleSection,
  transfers: drawTransfersSection,
  kernels: drawKernelsSection,
};
