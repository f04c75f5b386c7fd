// The named scopes in an op_name, as hlo_cli/analysis/origin/scopes_and_moves.py finds them.

const ADDED = new Set(
  ("checkpoint closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr pjit remat remat2 " +
    "rematted_computation shard_map while").split(" "),
);
const ADDED_AFTER_WHILE = new Set(["body", "body_fun", "body_pred", "cond", "cond_fun"]);
const WRAPPERS = ["jit(", "pjit(", "jvp(", "transpose(", "vmap(", "remat(", "checkpoint(", "xmap(", "pmap("];
const BRANCH = /^branch_[0-9]+_fun$/;

// Without the operation, which comes last, and without what JAX adds: `jit(...)`, loops, and rematerialization.
export function scopeOf(opName) {
  const scopes = [];
  let before = "";
  for (const part of splitParts(opName.split(";", 1)[0]).slice(0, -1)) {
    const inner = unwrapped(part);
    const isBranch = BRANCH.test(inner);
    const isAdded = isBranch || ADDED.has(inner) || (before === "while" && ADDED_AFTER_WHILE.has(inner));
    if (isBranch && before === "cond" && scopes.at(-1) === "cond") scopes.pop();
    if (inner && !isAdded && inner !== scopes.at(-1)) scopes.push(inner);
    before = inner;
  }
  return scopes.join("/");
}

// The parts between slashes that are outside of parentheses and brackets.
function splitParts(text) {
  const parts = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === "(" || letter === "[") depth += 1;
    else if (letter === ")" || letter === "]") depth -= 1;
    else if (letter === "/" && depth <= 0) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  return [...parts, text.slice(start)];
}

// The scope inside of transformations: `jvp(layers)` is `layers`; of `jit(f)` nothing is left.
function unwrapped(part) {
  let inner = part;
  while (inner.endsWith(")")) {
    const wrapper = WRAPPERS.find(each => inner.startsWith(each));
    if (wrapper === undefined) return inner;
    if (wrapper === "jit(" || wrapper === "pjit(") return "";
    inner = inner.slice(wrapper.length, -1);
  }
  return inner;
}
