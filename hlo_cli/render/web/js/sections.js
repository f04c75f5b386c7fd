// Which function draws which section: `(section, page) => void`, see store.js. A section that is missing here shows
// its tables one below the other.

import {drawArgumentsSection} from "./arguments.js";
import {drawCollectivesSection} from "./collectives.js";
import {drawFindingsSection} from "./findings.js";
import {drawKernelsSection} from "./kernels.js";
import {drawLinesSection} from "./lines.js";
import {drawMeasuredSection} from "./measured.js";
import {drawMemorySection} from "./memory.js";
import {drawPaddingSection} from "./padding.js";
import {drawScheduleSection} from "./schedule.js";
import {drawTimelineSection} from "./timeline.js";
import {drawTransfersSection} from "./transfers.js";

export const SECTION_DRAWERS = {
  measured: drawMeasuredSection,
  timeline: drawTimelineSection,
  memory: drawMemorySection,
  schedule: drawScheduleSection,
  transfers: drawTransfersSection,
  kernels: drawKernelsSection,
  collectives: drawCollectivesSection,
  arguments: drawArgumentsSection,
  lines: drawLinesSection,
  padding: drawPaddingSection,
  findings: drawFindingsSection,
};
