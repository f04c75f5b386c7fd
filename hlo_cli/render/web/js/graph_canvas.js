// The drawing of the part of a scene that is seen.

import {HEATS} from "./heat.js";
import {CHARACTER, firstLine, operationOf, secondLine, withoutMiddle} from "./node_text.js";
import {nodeColors} from "./graph_palette.js";
import {seenBetween} from "./scene.js";
import {READABLE, seenPart} from "./graph_view.js";
import {formatBytes} from "./units.js";

const MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const STUB = 9;
const FAR_NAME = 26;
const HEAD_LENGTH = 1.6;
const THINNEST = 0.6; // On the screen, however small the scene is drawn.
const DASHES = {control: [1.5, 3], transfer: [6, 4], indirect: [8, 3, 1.5, 3]};

// Draws onto a canvas of the size of the view; a canvas of no size stays empty.
export function drawScene(app) {
  const {canvas, view, palette, scene} = app;
  const context = canvas.getContext("2d");
  const ratio = window.devicePixelRatio || 1;
  if (!canvas.width || !canvas.height) return;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
  const part = seenPart(view);
  const found = seenBetween(scene, part.top, part.bottom);
  const nodes = found.nodes.filter(node => isSeen(node, part));
  for (const node of nodes) if (node.parts) drawCluster(app, context, node);
  drawEdges(app, context, found.edges.filter(edge => isEdgeSeen(edge, part)));
  for (const node of nodes) if (!node.parts) drawBox(app, context, node);
  if (view.scale >= READABLE) {
    for (const node of nodes) drawText(app, context, node);
    drawTitles(context, palette, scene.titles);
  }
  drawSelection(app, context, nodes);
}

function isSeen(node, {left, right}) {
  return node.x + node.width / 2 >= left && node.x - node.width / 2 <= right;
}

function isEdgeSeen({points}, {left, right}) {
  let [least, most] = [Infinity, -Infinity];
  for (const [x] of points) {
    least = Math.min(least, x);
    most = Math.max(most, x);
  }
  return most >= left && least <= right;
}

function drawCluster(app, context, node) {
  const [, border] = nodeColors(app, node.row);
  context.fillStyle = node.depth % 2 ? app.palette.paper : app.palette.wash;
  context.strokeStyle = border;
  context.lineWidth = 1.5;
  outline(context, node, 8);
  context.fill();
  context.stroke();
}

function outline(context, node, radius, grow = 0) {
  context.beginPath();
  const [width, height] = [node.width + 2 * grow, node.height + 2 * grow];
  context.roundRect(node.x - width / 2, node.y - height / 2, width, height, radius + grow);
}

// The width of an edge: the logarithm of its bytes.
function edgeWidth(bytes) {
  return Math.max(0.7, Math.min(6.5, Math.log2(Math.max(1, bytes / 4096)) * 0.38));
}

// Edges of one look are one path, as thousands of strokes are slow.
function drawEdges(app, context, edges) {
  const {palette, state, view, scene} = app;
  const selected = scene.at.get(state.selected);
  const looks = new Map();
  for (const edge of edges) {
    if (edge.from === selected || edge.to === selected) continue;
    const width = edge.isLong ? 1.2 : Math.round(edgeWidth(edge.bytes) * 2) / 2;
    const look = `${width} ${edge.kind}`;
    if (!looks.has(look)) looks.set(look, {width, edge, edges: []});
    looks.get(look).edges.push(edge);
  }
  context.strokeStyle = palette.other;
  for (const {width, edge, edges: alike} of looks.values()) {
    setLine(context, Math.max(width, THINNEST / view.scale), edge);
    context.beginPath();
    for (const each of alike) tracePath(context, each, view);
    context.stroke();
  }
  if (view.scale >= READABLE) drawEnds(context, palette.other, edges.filter(edge => !edge.isLong));
  if (selected) drawSelectedEdges(app, context, selected);
  context.setLineDash([]);
}

function setLine(context, width, edge) {
  context.lineWidth = width;
  context.setLineDash(DASHES[edge.kind] || []);
}

function tracePath(context, edge, view) {
  if (edge.isLong) {
    if (view.scale >= READABLE / 2) traceStubs(context, edge);
    return;
  }
  traceCurve(context, edge);
}

// Vertical where it passes a rank, curved between ranks; ends where its head begins.
function traceCurve(context, edge) {
  const {points} = edge;
  let [x, , y] = points[0];
  context.moveTo(x, y);
  for (let at = 1; at < points.length; at++) {
    const isLast = at === points.length - 1;
    const nextX = points[at][0];
    const top = points[at][1] - (isLast ? headSize(edge) * HEAD_LENGTH : 0);
    const bottom = isLast ? top : points[at][2];
    const middle = (y + top) / 2;
    context.bezierCurveTo(x, middle, nextX, middle, nextX, top);
    if (bottom !== top) context.lineTo(nextX, bottom);
    [x, y] = [nextX, bottom];
  }
}

function traceStubs(context, {from, to}) {
  const [left, right] = [from.x - from.width / 2 + STUB, to.x - to.width / 2 + STUB];
  const [bottom, top] = [from.y + from.height / 2, to.y - to.height / 2];
  context.moveTo(left, bottom);
  context.lineTo(left, bottom + STUB);
  context.moveTo(right, top - STUB);
  context.lineTo(right, top);
}

// Half the width of the head of an arrow.
function headSize({bytes, isLong}) {
  return 2 + Math.min(isLong ? 2 : Infinity, edgeWidth(bytes) * 0.7);
}

function drawEnds(context, color, edges) {
  context.fillStyle = color;
  context.beginPath();
  for (const edge of edges) {
    const [x, y] = edge.points[edge.points.length - 1];
    const half = headSize(edge);
    context.moveTo(x - half, y - half * HEAD_LENGTH);
    context.lineTo(x + half, y - half * HEAD_LENGTH);
    context.lineTo(x, y);
  }
  context.fill();
}

function drawSelectedEdges(app, context, selected) {
  context.strokeStyle = app.palette.name;
  for (const edge of [...selected.up, ...selected.down]) {
    setLine(context, Math.max(1.6, edge.isLong ? Math.min(3, edgeWidth(edge.bytes)) : edgeWidth(edge.bytes)), edge);
    context.beginPath();
    traceCurve(context, edge);
    context.stroke();
  }
  context.setLineDash([]);
  if (app.view.scale >= READABLE) drawEnds(context, app.palette.name, [...selected.up, ...selected.down]);
}

function drawBox(app, context, node) {
  const {model, view} = app;
  const [fill, border] = nodeColors(app, node.row);
  context.fillStyle = fill;
  context.strokeStyle = border;
  context.lineWidth = 1;
  outline(context, node, model.expandable[node.row] ? 7 : 2);
  context.fill();
  if (view.scale >= READABLE / 2) context.stroke();
}

function drawText(app, context, node) {
  const {model, palette, state} = app;
  const {row} = node;
  const [x, y] = [node.x - node.width / 2 + 8, node.y - node.height / 2];
  const [, , color] = node.parts ? [0, 0, palette.ink] : nodeColors(app, row);
  const mark = model.expandable[row] ? (node.parts ? "\u25be " : "\u25b8 ") : "";
  context.fillStyle = color;
  context.font = `600 11px ${MONO}`;
  context.fillText(mark + firstLine(model, row), x, y + 14);
  context.font = `11px ${MONO}`;
  context.globalAlpha = 0.86;
  context.fillText(underline(app, row, node.width - 16), x, y + 27);
  context.globalAlpha = 1;
  if (state.selected !== row) drawFarNames(app, context, node);
}

// The names of computations in a cluster of several.
function drawTitles(context, palette, titles) {
  context.fillStyle = palette.quiet;
  context.font = `10px ${MONO}`;
  for (const {name, x, y} of titles) context.fillText(name, x, y);
}

// The second line; with heat, the number in place of the shape.
function underline({model, state}, row, room) {
  const heat = HEATS[state.heat];
  const value = heat ? heat.of(model, row) : null;
  if (!value) return secondLine(model, row);
  return withoutMiddle(`${heat.text(value)}  ${operationOf(model, row)}`, Math.floor(room / CHARACTER + 0.01));
}

// At a stub, where it leads.
function drawFarNames(app, context, node) {
  const x = node.x - node.width / 2 + STUB + 4;
  const room = Math.max(8, Math.floor((node.width / 2 - STUB - 16) / 5.4));
  context.fillStyle = app.palette.quiet;
  context.font = `9px ${MONO}`;
  const below = [node.down, "to", node.y + node.height / 2 + STUB];
  const above = [node.up, "from", node.y - node.height / 2 - 4];
  for (const [edges, end, y] of [below, above]) {
    const far = edges.filter(edge => edge.isLong);
    if (!far.length) continue;
    const text = far.length > 1 ? `${far.length} far` : app.model.name[far[0][end].row];
    context.fillText(withoutMiddle(text, Math.min(FAR_NAME, room)), x, y);
  }
}

// A frame around the selected node, and at its edges their bytes.
function drawSelection(app, context, nodes) {
  const {palette, scene, state, view} = app;
  for (const node of nodes) {
    const isEnd = state.between && state.between.includes(node.row);
    if (node.row !== state.selected && node.row !== state.around && !isEnd) continue;
    context.strokeStyle = palette.name;
    context.lineWidth = Math.max(2.5, 2 / view.scale);
    context.setLineDash(node.row === state.selected ? [] : [5, 3]);
    outline(context, node, 7, 2);
    context.stroke();
    context.setLineDash([]);
  }
  const selected = scene.at.get(state.selected);
  if (!selected || view.scale < READABLE) return;
  context.font = `10px ${MONO}`;
  context.textAlign = "center";
  for (const edge of [...selected.up, ...selected.down]) if (!edge.isLong) drawBytes(context, palette, edge, selected);
  context.textAlign = "left";
}

function drawBytes(context, palette, edge, selected) {
  if (edge.bytes < 1024) return;
  const [near, next] = edge.to === selected ? edge.points.slice(-2).reverse() : edge.points.slice(0, 2);
  const x = (near[0] + next[0]) / 2;
  const y = edge.to === selected ? (near[1] + next[2]) / 2 : (near[2] + next[1]) / 2;
  const text = formatBytes(edge.bytes);
  const width = text.length * 6.1 + 4;
  context.fillStyle = palette.paper;
  context.fillRect(x - width / 2, y - 6, width, 12);
  context.fillStyle = palette.name;
  context.fillText(text, x, y + 3.5);
}
