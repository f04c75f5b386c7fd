// The search of the page: which rows have the words of a query in any of their texts.

const haystacks = new WeakMap();
const SOURCE_LINE = /\.\w+:\d+$/;

// A function that tells whether a row matches; null for a query without words. All words have to occur; a source line
// such as `model.py:9` does not match `model.py:97`.
export function matcherOf(query) {
  const words = wordsOf(query);
  if (!words.length) return null;
  return row => words.every(word => hasWord(haystackOf(row), word));
}

function hasWord(text, word) {
  const isLine = SOURCE_LINE.test(word);
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const next = text.charCodeAt(at + word.length);
    if (!isLine || !(next >= 48 && next <= 57)) return true;
  }
  return false;
}

// The texts of a row, those in lists too, in lower case; computed when the row is first searched.
function haystackOf(row) {
  let text = haystacks.get(row);
  if (text === undefined) {
    text = Object.values(row).flat().filter(cell => typeof cell === "string").join("\n").toLowerCase();
    haystacks.set(row, text);
  }
  return text;
}

// The words of a query, in lower case.
export function wordsOf(query) {
  return (query || "").trim().toLowerCase().split(/\s+/).filter(Boolean);
}
