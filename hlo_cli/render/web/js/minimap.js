// The whole scene, small, with a frame around what is seen; a drag moves the frame.

import {nodeColors} from "./graph_palette.js";
import {HEATS} from "./heat.js";
import {seenPart} from "./graph_view.js";

const MAP_MARGIN = 5;
const MOST_STRETCH = 4; // A long and narrow graph is wider here than it is, so that it can be seen.

// `{drawNodes, drawFrame}`: the nodes are drawn once for each scene and coloring.
export function createMinimap(app, canvas) {
  const nodes = document.createElement("canvas");
  const map = {x: 0, y: 0, across: 1, down: 1};
  const follow = event => {
    if (event.type === "pointermove" && !event.buttons) return;
    const {view} = app;
    view.x = view.width / 2 - (event.offsetX - map.x) / map.across * view.scale;
    view.y = view.height / 2 - (event.offsetY - map.y) / map.down * view.scale;
    app.refresh({view: true});
  };
  canvas.onpointerdown = event => {
    canvas.setPointerCapture(event.pointerId);
    follow(event);
  };
  canvas.onpointermove = follow;
  return {
    drawNodes: () => drawNodes(app, canvas, nodes, map),
    drawFrame: () => drawFrame(app, canvas, nodes, map),
  };
}

function drawNodes(app, canvas, nodes, map) {
  const {scene, palette, state} = app;
  const ratio = window.devicePixelRatio || 1;
  const {width, height} = canvas.getBoundingClientRect();
  const size = {width: Math.round(width * ratio), height: Math.round(height * ratio)};
  for (const each of [canvas, nodes]) Object.assign(each, size);
  if (!nodes.width || !nodes.height) return;
  const across = (width - 2 * MAP_MARGIN) / Math.max(1, scene.width);
  const down = (height - 2 * MAP_MARGIN) / Math.max(1, scene.height);
  map.across = Math.min(across, down * MOST_STRETCH);
  map.down = Math.min(down, across * MOST_STRETCH);
  map.x = (width - scene.width * map.across) / 2;
  map.y = (height - scene.height * map.down) / 2;
  const context = nodes.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, width, height);
  for (const node of scene.nodes) {
    const [fill, border] = nodeColors(app, node.row);
    context.fillStyle = node.parts ? palette.rule : HEATS[state.heat] ? fill : border;
    const [x, y] = [map.x + (node.x - node.width / 2) * map.across, map.y + (node.y - node.height / 2) * map.down];
    context.fillRect(x, y, Math.max(1.2, node.width * map.across), Math.max(1, node.height * map.down));
  }
}

// The map is away while all of the scene is seen.
function drawFrame(app, canvas, nodes, map) {
  const {left, top, right, bottom} = seenPart(app.view);
  const {scene} = app;
  const isAllSeen = left <= 0 && top <= 0 && right >= scene.width && bottom >= scene.height;
  canvas.style.visibility = isAllSeen ? "hidden" : "";
  canvas.parentElement.classList.toggle("whole", isAllSeen);
  if (!nodes.width || !nodes.height || isAllSeen) return;
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(nodes, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.strokeStyle = app.palette.alarm;
  context.lineWidth = 1.5;
  const [x, y] = [map.x + left * map.across, map.y + top * map.down];
  context.strokeRect(x, y, Math.max(3, (right - left) * map.across), Math.max(3, (bottom - top) * map.down));
}
