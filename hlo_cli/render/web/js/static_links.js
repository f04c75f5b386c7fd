// Charts and tables show the same values: pointing at a value in one marks it in the others.

// The elements of a value, by its name: bands and bars of charts, and rows of tables with a column of names.
function elementsByName(tables) {
  const found = new Map();
  const add = (name, each) => found.set(name, [...(found.get(name) || []), each]);
  for (const each of document.querySelectorAll("svg.hlo [data-v]")) add(each.dataset.v, each);
  for (const table of tables) {
    if (table.dataset.name === undefined) continue;
    for (const row of table.tBodies[0].rows) {
      const cell = row.cells[table.dataset.name];
      if (found.has(cell.textContent)) {
        row.dataset.v = cell.textContent;
        add(cell.textContent, row);
      }
    }
  }
  return found;
}

export function linkCharts(tables) {
  const named = elementsByName(tables);
  if (!named.size) return;
  let lit = [];
  const light = event => {
    const at = event.target.closest("[data-v]");
    const wanted = (at && named.get(at.dataset.v)) || [];
    if (wanted === lit) return;
    lit.forEach(each => each.classList.remove("lit"));
    wanted.forEach(each => each.classList.add("lit"));
    lit = wanted;
  };
  document.addEventListener("pointerover", light);
  document.addEventListener("click", event => {
    const at = event.target.closest("svg [data-v]");
    const row = at && (named.get(at.dataset.v) || []).find(each => each.tagName === "TR" && !each.hidden);
    if (row) row.scrollIntoView({block: "center"});
  });
}
