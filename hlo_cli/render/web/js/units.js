// Numbers as text, the same as hlo_cli/report/numbers.py and the cells of hlo_cli/render/draw/cells.py write them.

export const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const FLOP_PREFIXES = ["", "k", "M", "G", "T", "P"];
const PETA = 5;
const COUNTED_FLOPS = 1e6;
const SECOND_UNITS = ["ns", "\u00b5s", "ms", "s"];
const UNKNOWN = "?";
const NOT_APPLICABLE = "-";
const IN_A_SECOND = [1e9, 1e6, 1e3, 1];
const ROUNDING = 1e-9;
const NUMERIC_UNITS = new Set(
  ["count", "bytes", "size", "flops", "seconds", "percent", "ratio", "step", "line", "address"]
);

// Whether cells of a unit are numbers, which stand at the right and are sorted from the largest.
export function isNumericUnit(unit) {
  return NUMERIC_UNITS.has(unit);
}

// Whether a cell has no number or text to compare or add.
export function isMissing(cell) {
  return cell === null || cell === undefined || cell === "" || cell === UNKNOWN;
}

// A number divided, rounded half up, with thousands commas; a nonzero number is never shown as `0`.
export function formatScaled(value, divisor = 1, decimals = 0) {
  const magnitude = Math.abs(value);
  if (!magnitude) return "0";
  const digits = String(roundedUnits(magnitude, divisor, 10 ** decimals));
  const sign = value < 0 ? "-" : "";
  if (digits === "0") return (sign ? ">-" : "<") + (decimals ? `0.${"1".padStart(decimals, "0")}` : "1");
  if (!decimals) return sign + grouped(digits);
  const padded = digits.padStart(decimals + 1, "0");
  return `${sign}${grouped(padded.slice(0, -decimals))}.${padded.slice(-decimals)}`;
}

// Whole numbers are rounded exactly, as Python does it: products beyond 2^53 are computed as BigInt.
function roundedUnits(magnitude, divisor, factor) {
  if (!Number.isInteger(magnitude)) return wholeNumber(Math.floor(magnitude / divisor * factor + 0.5));
  const doubled = 2 * magnitude * factor + divisor;
  if (doubled <= Number.MAX_SAFE_INTEGER) return Math.floor(doubled / (2 * divisor));
  const exact = BigInt(divisor);
  return (2n * BigInt(magnitude) * BigInt(factor) + exact) / (2n * exact);
}

function wholeNumber(value) {
  return Number.isSafeInteger(value) ? value : BigInt(value);
}

function grouped(digits) {
  const first = digits.length % 3 || 3;
  const groups = [digits.slice(0, first)];
  for (let at = first; at < digits.length; at += 3) groups.push(digits.slice(at, at + 3));
  return groups.join(",");
}

// A number of things, with one decimal where it has a fraction.
export function formatCount(value) {
  return formatScaled(value, 1, Number.isInteger(value) ? 0 : 1);
}

// A number and a noun, which is given in the plural: `1 copy`, `3,652 instructions`.
export function countOf(number, noun) {
  return `${formatScaled(number)} ${number === 1 ? singularOf(noun) : noun}`;
}

function singularOf(noun) {
  if (noun.endsWith("ies")) return noun.slice(0, -3) + "y";
  if (["ches", "shes", "sses", "xes"].some(ending => noun.endsWith(ending))) return noun.slice(0, -2);
  return noun.endsWith("s") ? noun.slice(0, -1) : noun;
}

// The index in BYTE_UNITS for a column: its largest value has at most four digits before the point.
function byteUnit(largest) {
  return unitBelow(largest, 9999.95);
}

// The index in BYTE_UNITS for an axis or a sentence: at most three digits before the point.
export function axisUnit(largest) {
  return unitBelow(largest, 1023.95);
}

function unitBelow(value, limit) {
  const found = BYTE_UNITS.findIndex((_, unit) => Math.abs(value) / 1024 ** unit < limit);
  return found < 0 ? BYTE_UNITS.length - 1 : found;
}

// A size for a sentence: the unit follows the number, with one decimal unless it is whole.
export function formatBytes(value) {
  const unit = axisUnit(value);
  const divisor = 1024 ** unit;
  return `${formatScaled(value, divisor, value % divisor ? 1 : 0)} ${BYTE_UNITS[unit]}`;
}

// A number of floating-point operations for a sentence, with a decimal prefix from a million on: `137.4 Gflop`.
export function formatFlops(value) {
  if (Math.abs(value) < 999950) return countOf(value, "flops");
  const found = FLOP_PREFIXES.findIndex((_, at) => at > 1 && at < PETA && Math.abs(value) / 1000 ** at < 999.95);
  const unit = found < 0 ? PETA : found;
  return `${formatScaled(value, 1000 ** unit, 1)} ${FLOP_PREFIXES[unit]}flop`;
}

// The same for a column: counts below a million, else all with the prefix of the greatest.
function flopWriting(numbers, write) {
  const greatest = numbers.reduce((most, each) => Math.max(most, Math.abs(each)), 0);
  if (greatest < COUNTED_FLOPS) return {unit: "", textOf: write(each => formatScaled(each, 1, each % 1 ? 1 : 0))};
  const found = FLOP_PREFIXES.findIndex((_, at) => greatest / 1000 ** at < 9999.5);
  const unit = found < 0 ? FLOP_PREFIXES.length - 1 : Math.max(found, 2);
  return {unit: `${FLOP_PREFIXES[unit]}flop`, textOf: write(each => formatScaled(each, 1000 ** unit, 1))};
}

// The index in SECOND_UNITS for a column: its largest value has at most four digits before the point.
function secondUnit(largest) {
  return secondUnitBelow(largest, 9999.95);
}

function secondUnitBelow(value, limit) {
  const found = IN_A_SECOND.findIndex(each => Math.abs(value) * each < limit);
  return found < 0 ? IN_A_SECOND.length - 1 : found;
}

// A time in one of SECOND_UNITS, as a number.
function inSecondUnit(seconds, unit) {
  return seconds * IN_A_SECOND[unit];
}

// A time for a sentence: the unit follows the number, with one decimal.
export function formatSeconds(value) {
  const unit = secondUnitBelow(value, 999.95);
  return `${formatScaled(inSecondUnit(value, unit), 1, 1)} ${SECOND_UNITS[value ? unit : 3]}`;
}

// A fraction in whole percent, without the sign; 0 and 100 only if exact.
export function formatPercent(fraction) {
  return fraction >= 0.995 && fraction < 1 - ROUNDING ? ">99" : formatScaled(fraction * 100);
}

function formatRatio(factor) {
  return `\u00d7 ${formatScaled(factor, 1, 1)}`;
}

export function formatAddress(offset) {
  return offset < 0 ? `0x-${BigInt(-offset).toString(16)}` : `0x${BigInt(Math.trunc(offset)).toString(16)}`;
}

// The format of a column: its unit for the head, and a function from a cell to text. All cells share the unit; sums
// count for the unit too, but not for decimals. Only a `size` has a unit of its own, as in a column of memories of
// 1 KiB and 16 GiB.
export function writingOf(unit, cells, sums = []) {
  const numbers = cells.filter(cell => typeof cell === "number");
  const largest = () => [...numbers, ...sums].reduce((most, each) => Math.max(most, Math.abs(each) || 0), 0);
  const write = textOf => cell => cellText(cell, textOf);
  switch (unit) {
    case "bytes": {
      const chosen = byteUnit(largest());
      const divisor = 1024 ** chosen;
      const decimals = numbers.some(each => each % divisor) ? 1 : 0;
      return {unit: BYTE_UNITS[chosen], textOf: write(each => formatScaled(each, divisor, decimals))};
    }
    case "size":
      return {unit: "", textOf: write(each => (each ? formatBytes(each) : "0"))};
    case "flops":
      return flopWriting(numbers, write); // a sum just above a million would leave its rows one digit
    case "seconds": {
      const chosen = secondUnit(largest());
      return {unit: SECOND_UNITS[chosen], textOf: write(each => formatScaled(inSecondUnit(each, chosen), 1, 1))};
    }
    case "count":
    case "step": {
      const decimals = numbers.some(each => each % 1) ? 1 : 0;
      return {unit: "", textOf: write(each => formatScaled(each, 1, decimals))};
    }
    case "percent":
      return {unit: "%", textOf: write(formatPercent)};
    case "ratio":
      return {unit: "", textOf: write(formatRatio)};
    case "address":
      return {unit: "", textOf: write(formatAddress)};
    default:
      return {unit: "", textOf: write(plainText)};
  }
}

// A sum in the unit that the head of a column of some kind names; whole only if all its numbers are.
export function textInUnit(kind, unit, sum, numbers) {
  if (kind === "bytes") {
    const divisor = 1024 ** Math.max(0, BYTE_UNITS.indexOf(unit));
    return formatScaled(sum, divisor, numbers.some(each => each % divisor) ? 1 : 0);
  }
  if (kind === "seconds") return formatScaled(inSecondUnit(sum, Math.max(0, SECOND_UNITS.indexOf(unit))), 1, 1);
  if (kind === "percent") return formatPercent(sum);
  const prefix = FLOP_PREFIXES.indexOf(unit.replace(/flop$/, ""));
  const divisor = unit.endsWith("flop") ? 1000 ** Math.max(0, prefix) : 1;
  return formatScaled(sum, divisor, numbers.some(each => each % divisor) ? 1 : 0);
}

// The text of a cell: `-` if it does not apply, `?` if it is unknown.
function cellText(cell, textOf) {
  if (cell === null || cell === undefined) return NOT_APPLICABLE;
  return typeof cell === "number" ? textOf(cell) : plainText(cell);
}

// The text of a value without a unit: a text, a boolean, an index, a record.
export function plainText(cell) {
  if (cell === null || cell === undefined) return NOT_APPLICABLE;
  if (typeof cell === "boolean") return cell ? "yes" : "no";
  if (Array.isArray(cell)) return `(${cell.map(plainText).join(",")})`;
  if (typeof cell !== "object") return String(cell);
  return Object.entries(cell).map(([key, value]) => `${key} ${plainText(value)}`).join(" ");
}
