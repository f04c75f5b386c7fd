// Round numbers along an axis.

export const TIME_UNITS = [["ns", 1e9], ["\u00b5s", 1e6], ["ms", 1e3], ["s", 1]];

// A round distance of ticks: about `parts` of them up to `most`.
export function tickDistance(most, parts) {
  const raw = most / parts;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].find(factor => factor * power >= raw * (1 - 1e-9)) * power;
}
