// What files and messages say, as people say it: money, ranges, names of runs, and what is wrong with a field.

import { fixed, number } from "../drawing/format.js";

// Whole money from 1,000 on, cents below, and three significant digits below 1, as commands print it.
function money(value) {
  if (value === null || Number.isInteger(value) || Math.abs(value) >= 1000) return number(value);
  return fixed(value, Math.max(2, 2 - Math.floor(Math.log10(Math.abs(value)))));
}
export const amount = (unit, value) => [unit, money(value)].filter(Boolean).join("\u00a0");

// A mean, with the least and the most of all rehearsals where these differ.
export function ranged({ mean, low, high }, text = number) {
  const [least, most] = [text(low), text(high)];
  return low === null || least === most ? text(mean) : `${text(mean)} (${least} … ${most})`;
}

// "digits~system.budget=10.0" → "digits at 10 a round"; a run that is no point of a sweep keeps its name.
export function runTitle(name) {
  const [sweep, point] = name.split(/~(.*)/s);
  if (!point?.includes("=")) return name;
  const said = point.split(/,(?=[\w.-]+=)/).map((each) => {
    const [key, value] = each.split(/=(.*)/s);
    const text = value.trim() && Number.isFinite(Number(value)) ? String(Number(value)) : value;
    return key === "system.budget" ? `${text} a round` : `${key.split(".").at(-1)} ${text}`;
  });
  return `${sweep} at ${said.join(", ").replaceAll(" ", "\u00a0")}`;
}

const REASONS = [
  ["must be a positive, finite number", "must be above 0"],
  ["must be less than or equal to", "must be at most"],
  ["must be greater than or equal to", "must be at least"],
  ['shorten the run or set prices.at_end = "repeat"', "have fewer rounds, or start over at its end"],
];

// "system.budget = 0.0: must be …" → { setting: "system.budget", reason: "must be …" }
export function reasonOf(message) {
  const [, setting, reason] = message.match(/^(?:plan\.)?([\w.-]+)(?: = .*?)?: (.*)$/s) || [null, "", message];
  return { setting, reason: REASONS.reduce((text, [from, to]) => text.replace(from, to), reason) };
}
