// Colors of nodes by kind, those of XLA's graphs (xla/service/hlo_graph_dumper.cc): fill, border, text.

export const KIND_COLORS = {
  "matmul": ["#1565c0", "#003c8f", "#ffffff"],
  "reduction": ["#e1bee7", "#af8eb5", "#000000"],
  "elementwise": ["#fff9c4", "#cbc693", "#000000"],
  "slice or sort": ["#fff9c4", "#cbc693", "#000000"],
  "data movement": ["#c8e6c9", "#97b498", "#000000"],
  "precision": ["#ffcdd2", "#cb9ca1", "#000000"],
  "fusion": ["#cfd8dc", "#9ea7aa", "#000000"],
  "control flow": ["#2e7d32", "#005005", "#ffffff"],
  "custom call": ["#2e7d32", "#005005", "#ffffff"],
  "collective": ["#bcaaa4", "#8c7b75", "#000000"],
  "parameter": ["#ffb74d", "#c88719", "#000000"],
  "small parameter": ["#ffe0b2", "#cbae82", "#000000"],
  "constant": ["#ffffff", "#9e9e9e", "#000000"],
  "scalar": ["#ffffff", "#9e9e9e", "#000000"],
  "free": ["#ffffff", "#9e9e9e", "#000000"],
  "other": ["#cfd8dc", "#9ea7aa", "#000000"],
};

// Colors and signs of changes between two dumps.
export const CHANGES = {added: ["+", "saving"], removed: ["-", "alarm"], changed: ["~", "waste"], moved: [">", "odd"]};

// The colors of a kind on light or dark paper. Strong colors stay; pale ones are mixed with dark paper.
export function colorsOfKind(kind, isDark) {
  const [fill, border, text] = KIND_COLORS[kind] || KIND_COLORS.other;
  if (!isDark) return [fill, border, text];
  if (text === "#ffffff") return [fill, mixed(fill, "#ffffff", 0.35), text];
  if (fill === "#ffffff") return ["#20262d", "#5d6773", "#e6edf3"];
  return [mixed(fill, "#11151a", 0.62), mixed(fill, "#11151a", 0.2), "#e6edf3"];
}

// A color `share` of the way from one to another, each `#rrggbb`.
export function mixed(from, to, share) {
  const channels = [1, 3, 5].map(at => {
    const [start, end] = [from, to].map(color => parseInt(color.slice(at, at + 2), 16));
    return Math.round(start + (end - start) * share).toString(16).padStart(2, "0");
  });
  return `#${channels.join("")}`;
}
