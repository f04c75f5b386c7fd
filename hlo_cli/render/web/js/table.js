// Tables: sortable, searchable, with the first rows in sight, sums, and rows that select what they show.

import {element} from "./dom.js";
import {countOf, formatCount, isNumericUnit, writingOf} from "./units.js";
import {matcherOf, wordsOf} from "./filter.js";
import {addressOf, isRowSelected} from "./selection.js";
import {cellOfRow, filledColumns, sortedRows, totalOf} from "./table_rows.js";
import {barCell, tableCell} from "./table_cells.js";
import {barHead, headCell, markSorted, orderOf, sumLine, turnedOrder} from "./table_head.js";

const MORE = 200;
const COMMON = {top: 10, noun: "rows", sort: "", own: () => null};

// A table as an element that follows the store.
//
// `name` is the table's name, `noun` names its rows in the plural, `label` is its name for a reader, `section` the
// key of the section in addresses.
// `columns` are `{name, label, unit}` and more: `value(row)` computes a cell, `low` leaves on narrow screens, `rare` in
// a table beside a picture, `bar`
// adds bars (true or a class), `tone(row)` is a class, `total` asks for a sum (true or `{part, whole}`), `most` limits
// the characters, `order(row)` is sorted instead of the cell, `wide` texts wrap, `isLink` makes names links,
// `optional` columns leave if all cells are 0.
// `sort` names a column, `-column` turns its order; the first `top` rows are shown. `own(row)` says what a row shows,
// `{instruction, value, source}`, with `also`, further instructions; `choose(row)` acts when it is chosen, by default
// it is selected. `details(row)` is an element, or null, that a chosen row opens below itself. A change of `reveal` in
// the state, `{section}`, brings the first row of the selection into sight.
export function createTable(store, options) {
  const table = new DataTable(store, {...COMMON, ...options});
  store.subscribe(changed => table.update(changed));
  return table.element;
}

class DataTable {
  constructor(store, options) {
    this.store = store;
    this.options = options;
    this.limit = options.top;
    this.order = null;
    this.open = new Set();
    this.lines = new Map();
    this.count = element("p", {class: "count", role: "status"});
    this.scroll = element("div", {class: "scroll"});
    this.more = element("p", {class: "more"});
    this.element = element("div", {class: "table", "data-table": options.name}, this.count, this.scroll, this.more);
    this.fill();
  }

  update(changed) {
    if (changed.has("query")) this.draw();
    if (changed.has("selected")) this.mark();
    if (changed.has("reveal") && this.store.state.reveal.section === this.options.section) this.reveal();
  }

  // Rows, columns, and units anew.
  fill() {
    const {rows, columns, sort} = this.options;
    this.rows = rows;
    this.columns = filledColumns(columns, this.rows);
    this.order = this.order || orderOf(sort, columns);
    this.writings = new Map(this.columns.map(column => [column, this.writingOf(column)]));
    this.label = this.columns.find(column => !isNumericUnit(column.unit)) || this.columns[0];
    const unit = column => this.writings.get(column).unit;
    this.heads = this.columns.map(column => headCell(column, unit(column), () => this.sortBy(column)));
    const cells = this.heads.flatMap((head, at) => (this.columns[at].bar ? [head, barHead(this.columns[at])] : [head]));
    this.body = element("tbody");
    this.foot = element("tfoot");
    const head = element("thead", {}, element("tr", {}, ...cells));
    const label = this.options.label || this.options.noun;
    this.scroll.replaceChildren(element("table", {"aria-label": label}, head, this.body, this.foot));
    this.draw();
  }

  writingOf(column) {
    const total = totalOf(column, this.rows);
    const cells = isNumericUnit(column.unit) ? this.rows.map(row => cellOfRow(column, row)) : [];
    return writingOf(column.unit, cells, total ? [total.sum] : []);
  }

  sortBy(column) {
    this.order = turnedOrder(this.order, column);
    this.draw();
  }

  // The rows in sight, the sums, and what the search found.
  draw() {
    const {state} = this.store;
    const matches = matcherOf(state.query);
    const found = matches ? this.rows.filter(matches) : this.rows;
    const column = this.order && this.options.columns.find(each => each.name === this.order.name);
    const sorted = column ? sortedRows(found, column, this.order.falls) : found;
    this.found = sorted;
    this.shown = sorted.slice(0, this.limit);
    this.largest = new Map(this.columns.filter(each => each.bar).map(each => [each, largestOf(each, found)]));
    this.words = wordsOf(state.query);
    markSorted(this.heads, this.columns, this.order);
    this.lines.clear();
    this.body.replaceChildren(...(this.shown.length ? this.shown.flatMap(row => this.line(row)) : [this.nothing()]));
    this.drawFoot();
    this.element.dataset.found = found.length;
    this.tell(matches ? found.length : null);
    this.stop(this.body.querySelector("tr[tabindex]"));
    this.mark();
  }

  // How many rows the search found; the navigation adds these numbers up by section.
  tell(found) {
    const {noun} = this.options;
    this.count.textContent = found === null ? "" : `${formatCount(found)} of ${countOf(this.rows.length, noun)}`;
    if (found === null) delete this.element.dataset.found;
    else this.element.dataset.found = found;
  }

  nothing() {
    const query = this.store.state.query;
    const text = query ? `No rows match "${query.trim()}".` : `No ${this.options.noun}.`;
    return element("tr", {}, element("td", {class: "none", colspan: this.width, text}));
  }

  get width() {
    return this.columns.length + this.columns.filter(column => column.bar).length;
  }

  // The row, and below it its details if they are open.
  line(row) {
    const {own, section, details} = this.options;
    const shows = own(row);
    const isActive = Boolean(shows || details);
    const line = element("tr", isActive ? {tabindex: -1} : {});
    const link = shows && {address: addressOf(section, shows), choose: () => this.follow(row)};
    for (const column of this.columns) {
      const writing = this.writings.get(column);
      const cell = tableCell(column, row, {writing, words: this.words, link: column.isLink ? link : null});
      if (details && column === this.label) cell.prepend(this.toggle(row), " ");
      line.append(cell);
      if (column.bar) line.append(barCell(column, row, this.largest.get(column)));
    }
    if (isActive) {
      line.onclick = event => this.click(event, row);
      line.onkeydown = event => this.key(event, row);
    }
    this.lines.set(row, line);
    return this.open.has(row) ? [line, this.detailLine(row)] : [line];
  }

  toggle(row) {
    const isOpen = this.open.has(row);
    const act = event => {
      event.stopPropagation();
      this.turn(row);
    };
    const text = isOpen ? "\u25be" : "\u25b8";
    const named = {class: "toggle", type: "button", "aria-label": "details", "aria-expanded": String(isOpen)};
    return element("button", {...named, tabindex: -1, text, onclick: act});
  }

  detailLine(row) {
    return element("tr", {class: "expanded"}, element("td", {colspan: this.width}, this.options.details(row)));
  }

  // Opens or closes the details of a row in place.
  turn(row) {
    const line = this.lines.get(row);
    if (this.open.delete(row)) line.nextElementSibling.remove();
    else {
      this.open.add(row);
      line.after(this.detailLine(row));
    }
    line.querySelector(".toggle").replaceWith(this.toggle(row));
  }

  // A click that ends the selection of text is not a choice.
  click(event, row) {
    if (event.target.closest("button, a, tr.expanded") || String(window.getSelection())) return;
    this.stop(this.lines.get(row));
    this.act(row);
  }

  // A link acts as its row does, and leaves the focus there.
  follow(row) {
    const line = this.lines.get(row);
    this.stop(line);
    line.focus({preventScroll: true});
    this.choose(row);
  }

  act(row) {
    if (this.options.details) this.turn(row);
    else this.choose(row);
  }

  key(event, row) {
    if (event.target !== event.currentTarget) return;
    const moves = {ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity};
    if (event.key === "Enter" || event.key === " ") this.act(row);
    else if (event.key in moves) this.moveTo(this.shown.indexOf(row) + moves[event.key]);
    else return;
    event.preventDefault();
  }

  moveTo(at) {
    const line = this.lines.get(this.shown[Math.max(0, Math.min(this.shown.length - 1, at))]);
    this.stop(line);
    line.focus();
  }

  // Tab stops once in a table's rows; arrows go on from there.
  stop(line) {
    for (const each of this.body.querySelectorAll('tr[tabindex="0"]')) each.tabIndex = -1;
    if (line) line.tabIndex = 0;
  }

  // A second choice of a selected row takes the selection back.
  choose(row) {
    const {own, choose} = this.options;
    const isChosen = this.lines.get(row).classList.contains("on");
    if (choose) choose(row, isChosen);
    else if (isChosen) this.store.set({selected: null});
    else this.store.show(own(row));
  }

  mark() {
    const {selected} = this.store.state;
    for (const [row, line] of this.lines) {
      const isOn = isRowSelected(selected, this.options.own(row));
      line.classList.toggle("on", isOn);
      if (isOn) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    }
  }

  // Shows the first row of the selection, also if it is below those in sight.
  reveal() {
    const {selected} = this.store.state;
    const at = this.found.findIndex(row => isRowSelected(selected, this.options.own(row)));
    if (at < 0) return;
    if (at >= this.limit) {
      this.limit = at + 1;
      this.draw();
    }
    this.lines.get(this.found[at]).scrollIntoView({block: "center"});
  }

  // The sums of the rows out of sight and of all that were found, and the button that shows more.
  drawFoot() {
    const left = this.found.length - this.shown.length;
    const next = Math.min(left, MORE);
    const text = next < left ? `show ${next} of ${formatCount(left)} more` : `show ${formatCount(left)} more`;
    const button = left ? element("button", {type: "button", text, onclick: () => this.showMore(next)}) : null;
    const isSummed = this.columns.some(column => column.total) && this.found.length > 1;
    this.more.replaceChildren(...(button ? [button] : []));
    const named = {text: this.found.length < this.rows.length ? "total of matches" : "total", label: this.label};
    this.foot.replaceChildren(...(isSummed ? [sumLine(this.columns, this.found, this.writings, named)] : []));
  }

  showMore(count) {
    const first = this.limit;
    this.limit += count;
    this.draw();
    this.moveTo(first);
  }
}

function largestOf(column, rows) {
  return rows.reduce((most, row) => Math.max(most, Number(cellOfRow(column, row)) || 0), 0);
}
