// The values that are live at the chosen step, in groups: the legend of the picture above it.

import {element} from "./dom.js";
import {matcherOf} from "./filter.js";
import {colorsOf, groupsAt, GROUPINGS} from "./memory_groups.js";
import {liveRow, valueRow} from "./live_rows.js";
import {countOf, formatBytes, formatPercent, formatScaled, writingOf} from "./units.js";
import {isSelected, instructionOf, nameOfStep} from "./store.js";

const TOP_GROUPS = 12;
const MORE_GROUPS = 100;
const MOST_VALUES = 40;

// `memory()` is the shown memory, see memory_chart.js; `tools` are controls for its head.
export function createLiveTable(page, memory, tools) {
  const table = new LiveTable(page, memory, tools);
  table.draw();
  page.store.subscribe(changed => table.update(changed));
  return table.element;
}

class LiveTable {
  constructor(page, memory, tools) {
    this.page = page;
    this.memory = memory;
    this.open = new Set();
    this.limit = TOP_GROUPS;
    this.title = element("h3", {});
    this.sentence = element("p", {});
    this.head = element("thead");
    this.body = element("tbody");
    this.foot = element("tfoot");
    this.more = element("p", {class: "more"});
    this.table = element("table", {}, this.head, this.body, this.foot);
    const scroll = element("div", {class: "scroll"}, this.table);
    const lead = element("div", {class: "lead"}, this.title, this.sentence, tools);
    this.element = element("div", {class: "table live", "data-table": "live"}, lead, scroll, this.more);
  }

  update(changed) {
    if (changed.has("grouping") || changed.has("space")) {
      this.open.clear();
      this.limit = TOP_GROUPS;
    }
    if (["grouping", "space", "step", "query"].some(key => changed.has(key))) this.draw();
    else if (changed.has("selected")) this.mark();
  }

  draw() {
    const {store} = this.page;
    const {step, grouping, query} = store.state;
    const memory = this.memory();
    const colors = colorsOf(memory.rows, memory.peakStep, grouping);
    const groups = groupsAt(memory.rows, step, grouping);
    const matches = matcherOf(query);
    const hasQuery = group => matches({label: group.label}) || group.values.some(matches);
    const found = matches ? groups.filter(hasQuery) : groups;
    const sum = groups.reduce((bytes, group) => bytes + group.bytes, 0);
    const bytes = writingOf("bytes", groups.map(group => group.bytes), [sum]);
    const format = {bytes, total: memory.totals[step], grouping};
    this.element.dataset.found = found.length;
    this.marks = [];
    this.drawTitle(memory, groups);
    this.drawHead(format);
    this.drawBody(found, groups, format, colors);
    this.drawFoot(found, groups, format);
    this.mark();
  }

  drawTitle(memory, groups) {
    const {step} = this.page.store.state;
    const isPeak = step === memory.peakStep;
    const name = nameOfStep(this.page.report, step);
    const values = groups.reduce((sum, group) => sum + group.values.length, 0);
    this.title.textContent = `In ${memory.name} at step ${formatScaled(step)}${isPeak ? ", the peak" : ""}`;
    const sum = `${countOf(values, "values")}, ${formatBytes(memory.totals[step])}`;
    this.sentence.textContent = name ? `${sum}; the step is ${name}` : sum;
    this.table.setAttribute("aria-label", this.title.textContent);
  }

  drawHead({bytes, grouping}) {
    const label = GROUPINGS.find(([key]) => key === grouping)[1];
    const isValue = grouping === "value";
    const cell = (text, kind = null, unit = "") => {
      const inner = unit ? [" ", element("span", {class: "unit", text: unit})] : [];
      return element("th", {scope: "col", class: kind}, text, ...inner);
    };
    const counted = cell(isValue ? "live" : "values", "number");
    const cells = [cell(label), counted, cell("", "number", bytes.unit), cell("", "number", "%")];
    const last = cell(grouping === "shape" ? "largest" : isValue ? "shape" : "shapes", "low rare");
    this.head.replaceChildren(element("tr", {}, ...cells, element("td", {class: "bar low"}), last));
  }

  drawBody(found, groups, format, colors) {
    const rows = [];
    const largest = groups[0]?.bytes ?? 0;
    for (const group of found.slice(0, this.limit)) {
      const isOpen = this.open.has(group.key);
      const toggle = () => this.toggle(group);
      const line = liveRow(group, {...format, largest, isOpen, toggle, color: colors.get(group.key)});
      this.activate(line, group.values.length === 1 ? () => this.select(group.values[0]) : toggle);
      this.marks.push([line, ownOfGroup(group, format.grouping)]);
      rows.push(line);
      if (isOpen) rows.push(...this.valueRows(group, format));
    }
    if (!rows.length) rows.push(this.nothing(groups));
    this.body.replaceChildren(...rows);
    const left = found.length - this.limit;
    const show = () => {
      this.limit += MORE_GROUPS;
      this.draw();
    };
    const text = `show ${formatScaled(Math.min(left, MORE_GROUPS))} more`;
    this.more.replaceChildren(...(left > 0 ? [element("button", {type: "button", text, onclick: show})] : []));
  }

  valueRows(group, format) {
    const rows = group.values.slice(0, MOST_VALUES).map(value => {
      const line = valueRow(value, format);
      this.activate(line, () => this.select(value));
      this.marks.push([line, ownOfValue(value)]);
      return line;
    });
    const rest = group.values.slice(MOST_VALUES);
    if (!rest.length) return rows;
    const bytes = rest.reduce((sum, value) => sum + value.bytes, 0);
    const text = `${formatScaled(rest.length)} more, ${formatBytes(bytes)}; group by value to list them`;
    return [...rows, element("tr", {class: "value"}, element("td", {colspan: 6, class: "quiet", text}))];
  }

  nothing(groups) {
    const {query} = this.page.store.state;
    const text = groups.length ? `No rows match "${query}".` : "No values are live at this step.";
    return element("tr", {}, element("td", {colspan: 6, class: "none", text}));
  }

  // A total that has more than the listed values shows the difference; that of a search is of what it found.
  drawFoot(found, groups, format) {
    const isPart = found.length < groups.length;
    const sum = found.reduce((bytes, group) => bytes + group.bytes, 0);
    const rest = isPart ? 0 : format.total - sum;
    const count = found.reduce((total, group) => total + group.values.length, 0);
    const line = (text, values, bytes) => {
      const share = isPart ? formatPercent(format.total ? bytes / format.total : 0) : "";
      const cells = [[null, text], ["number", values], ["number", format.bytes.textOf(bytes)], ["number", share]];
      const all = [...cells, ["bar low", ""], ["low rare", ""]];
      return element("tr", {}, ...all.map(([kind, each]) => element("td", {class: kind, text: each})));
    };
    const lines = rest > 0 ? [line("not listed", "", rest)] : [];
    const total = isPart ? sum : format.total;
    const label = isPart ? "total of matches" : "total";
    if (found.length > 1 || rest > 0) lines.push(line(label, formatScaled(count), total));
    this.foot.replaceChildren(...lines);
  }

  activate(line, act) {
    line.tabIndex = 0;
    line.onclick = () => {
      if (!String(getSelection())) act();
    };
    line.onkeydown = event => {
      if (event.key === "Enter" || event.key === " ") act();
      else if (event.key === "ArrowDown") neighbor(line, "nextElementSibling")?.focus();
      else if (event.key === "ArrowUp") neighbor(line, "previousElementSibling")?.focus();
      else return;
      event.preventDefault();
    };
  }

  // Opens or closes a group; the row keeps the focus.
  toggle(group) {
    if (!this.open.delete(group.key)) this.open.add(group.key);
    const rows = [...this.body.rows];
    const at = rows.indexOf(document.activeElement);
    this.draw();
    if (at >= 0) this.body.rows[at]?.focus();
  }

  select(value) {
    const {store} = this.page;
    const isChosen = store.state.selected?.value === value.value;
    store.set({selected: isChosen ? null : ownOfValue(value)});
  }

  mark() {
    const {selected} = this.page.store.state;
    for (const [line, own] of this.marks) {
      const isOn = own !== null && isSelected(selected, own);
      line.classList.toggle("on", isOn);
      if (isOn) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    }
  }
}

function neighbor(line, direction) {
  let next = line[direction];
  while (next && next.tabIndex !== 0) next = next[direction];
  return next;
}

function ownOfValue(value) {
  return {instruction: instructionOf(value.value), value: value.value, source: value.source || null};
}

// A group is marked as its only value, or as its source line.
function ownOfGroup(group, grouping) {
  if (group.values.length === 1) return ownOfValue(group.values[0]);
  return grouping === "source" ? {source: group.key} : null;
}
