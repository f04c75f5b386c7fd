// The search: rows of all tables whose text has every word of the query.

export function filterTables(tables, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  let all = 0;
  for (const table of tables) {
    for (const row of table.tBodies[0].rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      row.hidden = !words.every(word => text.includes(word));
      found += row.hidden ? 0 : 1;
      all += 1;
    }
    // the sums are those of all rows
    if (table.tFoot) table.tFoot.hidden = words.length > 0;
  }
  document.dispatchEvent(new CustomEvent("filtered", {detail: {query, found, all}}));
}
