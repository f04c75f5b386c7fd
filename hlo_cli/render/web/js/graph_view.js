// Which part of the graph is seen: `{scale, x, y}`, where a point of the scene is at `scale * point + (x, y)`; the
// lower `covered` pixels are under the details of a small screen.

const LEAST_SCALE = 0.02;
const MOST_SCALE = 4;
export const READABLE = 0.42; // Texts are drawn from this scale on.
const COMFORTABLE = 0.85;
const VIEW_MARGIN = 24;
const ABOVE = 14; // room above and below a scene that is shown whole
const BELOW = 14;

export function createView() {
  return {scale: 1, x: 0, y: 0, width: 0, height: 0, covered: 0};
}

// The part of the scene that is seen.
export function seenPart({scale, x, y, width, height}) {
  return {left: -x / scale, top: -y / scale, right: (width - x) / scale, bottom: (height - y) / scale};
}

// The point of the scene under a point of the canvas.
export function pointUnder(view, x, y) {
  return [(x - view.x) / view.scale, (y - view.y) / view.scale];
}

export function zoomBy(view, factor, x = view.width / 2, y = view.height / 2) {
  const scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
}

// All of the scene, no larger than its own size.
export function fitScene(view, scene) {
  const across = (view.width - 2 * VIEW_MARGIN) / Math.max(1, scene.width);
  const down = (view.height - ABOVE - BELOW) / Math.max(1, scene.height);
  view.scale = Math.max(LEAST_SCALE, Math.min(1, across, down));
  view.x = (view.width - scene.width * view.scale) / 2;
  view.y = ABOVE + (view.height - ABOVE - BELOW - scene.height * view.scale) / 2;
}

// Whether all of the scene can be seen and read.
export function isFitReadable(view, scene) {
  const height = view.height - ABOVE - BELOW;
  return scene.width * READABLE < view.width - 2 * VIEW_MARGIN && scene.height * READABLE < height;
}

// A node in the middle; of a large cluster the upper edge.
export function centerOn(view, node, scale = Math.max(view.scale, COMFORTABLE)) {
  view.scale = scale;
  const half = Math.min(node.height / 2, (view.height / 2 - ABOVE) / scale);
  view.x = view.width / 2 - node.x * scale;
  view.y = view.height / 2 - (node.y - node.height / 2 + half) * scale;
}

// A node in view, and of its surroundings as much as can be; no room is left above or below the scene.
export function centerAmong(view, node, {nodes, height: sceneHeight}) {
  centerOn(view, node);
  const {top, bottom} = seenPart(view);
  const reach = view.width / view.scale;
  const near = nodes.filter(({x, y}) => top < y && y < bottom && Math.abs(x - node.x) < reach);
  let total = 0;
  for (const {x} of near) total += x;
  const room = Math.max(0, view.width - node.width * view.scale) / 2 - VIEW_MARGIN;
  const shift = (total / Math.max(1, near.length) - node.x) * view.scale;
  if (room > 0) view.x -= Math.max(-room, Math.min(room, shift));
  const least = view.height - BELOW - sceneHeight * view.scale;
  view.y = least > ABOVE ? (least + ABOVE) / 2 : Math.max(least, Math.min(ABOVE, view.y));
}

// Moves a node into view, as little as possible.
export function reveal(view, node) {
  const {scale} = view;
  const across = Math.min(node.width * scale, view.width - 2 * VIEW_MARGIN);
  const down = node.height * scale;
  const left = (node.x - node.width / 2) * scale + view.x;
  const top = (node.y - node.height / 2) * scale + view.y;
  view.x += Math.max(0, VIEW_MARGIN - left) - Math.max(0, left + across + VIEW_MARGIN - view.width);
  const below = Math.max(BELOW, view.covered + VIEW_MARGIN);
  view.y += Math.max(0, ABOVE - top) - Math.max(0, Math.min(top + down + below - view.height, top - ABOVE));
}

// The same corner of a node at the same place as before.
export function keepInPlace(view, before, after) {
  view.x -= ((after.x - after.width / 2) - (before.x - before.width / 2)) * view.scale;
  view.y -= ((after.y - after.height / 2) - (before.y - before.height / 2)) * view.scale;
}
