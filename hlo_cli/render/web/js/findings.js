// The section of findings: groups of what `hlo lint` reports, each with its findings.

import {element} from "./dom.js";
import {addressOf} from "./selection.js";
import {createTable} from "./table.js";
import {columnsOf} from "./table_rows.js";
import {fileLine} from "./words.js";
import {countOf, formatCount} from "./units.js";

const RANKS = {error: 0, warning: 1};
const TONES = {error: "alarm", warning: "waste"};
const MOST_LISTED = 50;

const WANTED = [
  {name: "message", label: "finding", wide: true},
  {name: "severity", label: "severity", order: rankOf, tone: row => TONES[row.severity] || "quiet"},
  {name: "code", label: "rule", isCode: true},
  {name: "count", label: "count", low: true},
  {name: "cost_bytes", label: "cost", low: true, tone: () => "waste"},
  {name: "seconds", label: "est. time", low: true},
  {name: "measured_seconds", label: "measured", low: true},
];

function rankOf(row) {
  return RANKS[row.severity] ?? 2;
}

export function drawFindingsSection({body, key}, {report, store}) {
  const {groups, findings} = report.tables;
  const table = groups || findings;
  if (!table || !table.rows.length) return;
  const found = groups && findings ? findingsByGroup(findings.rows) : new Map();
  const own = row => ({instruction: row.instruction, source: row.source || null, also: row.instructions || []});
  const details = row => detailsOf(row, found.get(row.group) || [row], key, store);
  body.append(
    createRules(store, (findings || groups).rows),
    createTable(store, {
      name: "findings", section: key, noun: groups ? "groups" : "findings", rows: table.rows,
      columns: columnsOf(table, WANTED), own, details,
    })
  );
}

function findingsByGroup(rows) {
  const found = new Map();
  for (const row of rows) {
    if (found.has(row.group)) found.get(row.group).push(row);
    else found.set(row.group, [row]);
  }
  return found;
}

// A button for each rule, which searches for it.
function createRules(store, rows) {
  const counts = new Map();
  for (const row of rows) counts.set(row.code, (counts.get(row.code) || 0) + 1);
  const codes = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const buttons = codes.map(([code, count]) => {
    const search = () => store.set({query: store.state.query === code ? "" : code});
    const text = [`${code} `, element("b", {text: formatCount(count)})];
    const title = `hlo lint --explain ${code}`;
    return element("button", {type: "button", title, onclick: search, "data-rule": code}, ...text);
  });
  const press = () => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.rule === store.state.query));
  };
  store.subscribe(changed => changed.has("query") && press());
  press();
  return element("p", {class: "rules", role: "group", "aria-label": "Rules"}, ...buttons);
}

// The findings of a group, with their place in the dump, and how to learn more.
function detailsOf(group, findings, section, store) {
  const listed = findings.slice(0, MOST_LISTED).map(row => findingLine(row, group.code, section, store));
  const left = findings.length - listed.length;
  return element(
    "div", {class: "findings"},
    group.hint ? element("p", {}, element("b", {text: "fix: "}), group.hint) : null,
    element("ul", {}, ...listed),
    left > 0 ? element("p", {class: "quiet", text: countOf(left, "more findings")}) : null,
    element("p", {class: "quiet"}, "More: ", element("code", {text: `hlo lint --explain ${group.code}`})),
  );
}

function findingLine(row, code, section, store) {
  const own = {instruction: row.instruction, source: row.source || null};
  const choose = event => {
    event.preventDefault();
    store.show(own);
  };
  const link = {class: "name code", href: addressOf(section, own), onclick: choose, text: row.instruction};
  const line = typeof row.line === "number" ? `line ${row.line} of the dump` : null;
  const place = [row.code === code ? null : row.code, row.source ? fileLine(row.source) : null, line];
  return element(
    "li", {}, ...(row.instruction ? [element("a", link), " "] : []), row.message,
    element("span", {class: "quiet", text: ` \u00b7 ${place.filter(Boolean).join(", ")}`}),
  );
}
