// What is selected on the page, `{instruction, value, source}`, and whether a row or a mark belongs to it.

const ELEMENT = /\{[\d,]*\}$/;

// Whether something with its own instructions, value, or source line is a part of the selection. What has a name is
// compared by it; a selected source line marks everything of that line.
export function isOfSelection(selected, own) {
  if (!selected || !own) return false;
  const wanted = namesOf(selected);
  const names = namesOf(own);
  if (wanted.length && names.length) return names.some(name => wanted.includes(name));
  if (wanted.length && own.isLine) return Boolean(own.source) && own.source === selected.source;
  return !wanted.length && Boolean(own.source) && own.source === selected.source;
}

// Instructions by name: an element of a tuple, `fusion.4{1}`, belongs to `fusion.4`.
function namesOf({instruction, value, done}) {
  return [instruction, value && value.replace(ELEMENT, ""), done].filter(Boolean);
}

// The address of a selection within the page.
export function addressOf(section, own) {
  const name = own.value || own.instruction;
  const part = name ? `select=${encodeURIComponent(name)}` : `q=${encodeURIComponent(own.source || "")}`;
  return `#${section}?${part}`;
}
