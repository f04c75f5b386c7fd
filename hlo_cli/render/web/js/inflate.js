// Decompresses gzip at once, for data of a page that is small: a page that is drawn before its `load` event is complete
// for whoever prints it or takes its picture without waiting. Browsers themselves only do so later. See RFC 1951.

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163,
  195, 227, 258];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049,
  3073, 4097, 6145, 8193, 12289, 16385, 24577];
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const HEADER = 10; // bytes of a header without a name, as pages have it

// The number of bytes that gzip holds: its last four bytes.
export function inflatedSize(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(bytes.length - 4, true);
}

export function inflate(bytes) {
  const input = {bytes, at: HEADER, bits: 0, held: 0};
  const output = {bytes: new Uint8Array(inflatedSize(bytes)), at: 0};
  for (let isLast = 0; !isLast;) {
    isLast = takeBits(input, 1);
    const kind = takeBits(input, 2);
    if (kind === 0) copyStored(input, output);
    else copyCodes(input, output, ...(kind === 1 ? fixedCodes() : dynamicCodes(input)));
  }
  return output.bytes;
}

function takeBits(input, count) {
  while (input.held < count) {
    input.bits |= input.bytes[input.at++] << input.held;
    input.held += 8;
  }
  const value = input.bits & ((1 << count) - 1);
  input.bits >>>= count;
  input.held -= count;
  return value;
}

function copyStored(input, output) {
  input.at -= input.held >> 3; // whole bytes that were taken too early
  input.bits = input.held = 0;
  const size = input.bytes[input.at] | (input.bytes[input.at + 1] << 8);
  output.bytes.set(input.bytes.subarray(input.at + 4, input.at + 4 + size), output.at);
  input.at += 4 + size;
  output.at += size;
}

function copyCodes(input, output, literals, distances) {
  for (let symbol = nextSymbol(input, literals); symbol !== 256; symbol = nextSymbol(input, literals)) {
    if (symbol < 256) output.bytes[output.at++] = symbol;
    else {
      const number = symbol - 257;
      const length = LENGTHS[number] + takeBits(input, number < 8 || number === 28 ? 0 : (number - 4) >> 2);
      const far = nextSymbol(input, distances);
      const from = output.at - DISTANCES[far] - takeBits(input, far < 4 ? 0 : (far - 2) >> 1);
      for (let at = 0; at < length; at++) output.bytes[output.at++] = output.bytes[from + at];
    }
  }
}

// The next symbol: codes of each length are consecutive numbers, with `counts` of them, in the order of `symbols`.
function nextSymbol(input, {counts, symbols}) {
  let code = 0;
  let first = 0;
  let index = 0;
  for (let length = 1; length < 16; length++) {
    code |= takeBits(input, 1);
    if (code - counts[length] < first) return symbols[index + code - first];
    index += counts[length];
    first = (first + counts[length]) << 1;
    code <<= 1;
  }
  throw new Error("invalid code");
}

function codesOf(lengths) {
  const counts = new Uint16Array(16);
  for (const length of lengths) counts[length]++;
  const symbols = [];
  for (let length = 1; length < 16; length++) {
    lengths.forEach((each, symbol) => each === length && symbols.push(symbol));
  }
  counts[0] = 0;
  return {counts, symbols};
}

function fixedCodes() {
  const lengths = Array.from({length: 288}, (_, at) => (at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8));
  return [codesOf(lengths), codesOf(Array(30).fill(5))];
}

function dynamicCodes(input) {
  const literals = takeBits(input, 5) + 257;
  const distances = takeBits(input, 5) + 1;
  const own = Array(19).fill(0);
  for (let at = 0, count = takeBits(input, 4) + 4; at < count; at++) own[ORDER[at]] = takeBits(input, 3);
  const codes = codesOf(own);
  const lengths = [];
  while (lengths.length < literals + distances) {
    const symbol = nextSymbol(input, codes);
    if (symbol < 16) lengths.push(symbol);
    else if (symbol === 16) repeatLength(lengths, lengths.at(-1), 3 + takeBits(input, 2));
    else repeatLength(lengths, 0, symbol === 17 ? 3 + takeBits(input, 3) : 11 + takeBits(input, 7));
  }
  return [codesOf(lengths.slice(0, literals)), codesOf(lengths.slice(literals))];
}

function repeatLength(lengths, length, count) {
  for (let at = 0; at < count; at++) lengths.push(length);
}
