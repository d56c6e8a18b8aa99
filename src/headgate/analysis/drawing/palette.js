// A policy has the same colour in every run, and a run the same kind of line; as in the report.

const COLOURS = 7;
const DASHES = ["solid", "dash", "dot", "dashdot"];

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// For lines {run, policy}: which colour and which dash each has.
export function looks(lines) {
  const policies = [...new Set(lines.map((line) => line.policy))];
  const runs = [...new Set(lines.map((line) => line.run))];
  if (policies.length <= COLOURS && runs.length <= DASHES.length) {
    return lines.map((line) => ({ colour: policies.indexOf(line.policy), dash: runs.indexOf(line.run) }));
  }
  return lines.map((_, i) => ({ colour: i % COLOURS, dash: Math.floor(i / COLOURS) % DASHES.length }));
}

export const colourOf = (look) => style(`--c${look.colour}`);
export const dashOf = (look) => DASHES[look.dash];
export const swatchClass = (look) => `swatch c${look.colour} d${look.dash}`;

export function faded(colour, alpha) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}
