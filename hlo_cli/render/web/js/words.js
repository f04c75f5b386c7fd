// Texts of a dump shortened for a cell; the whole text stays at hand as its title.

const LAYOUT = /\{[^{}]*\}/g;

// The text with its middle left out, so that the number at the end of a name stays; at most `most` characters.
export function shorten(text, most) {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}\u2026${text.slice(text.length - tail)}`;
}

// A shape that loses the inside of its layouts first, and only then its middle.
export function shortenShape(shape, most) {
  return shape.length <= most ? shape : shorten(shape.replace(LAYOUT, "{\u2026}"), most);
}

// The file and line of a source without its directories.
export function fileLine(source) {
  return source.slice(Math.max(source.lastIndexOf("/"), source.lastIndexOf("\\")) + 1);
}

// A list whose end is left out, after a whole item where there is one.
export function shortenList(text, most) {
  if (text.length <= most) return text;
  const cut = text.lastIndexOf(", ", most - 3);
  return cut > 0 ? `${text.slice(0, cut)}, \u2026` : `${text.slice(0, most - 1)}\u2026`;
}

// The source line of a row: its own, else the one that is inferred from those around it; null if both are unknown.
export function lineOfRow(row) {
  return row.source || row.origin || row.origin_source || null;
}

// A source line that is inferred is gray.
export function inferredTone(row) {
  return row.source ? null : "quiet";
}

// An op_name that loses its head: the innermost scopes say most.
export function shortenScope(scope, most) {
  return scope.length <= most ? scope : `\u2026${scope.slice(scope.length - most + 1)}`;
}
