// What a figure of lines says, in words and as a table. A pane has `text`, which writes one of its numbers.

import { number, whole, withInterval } from "./format.js";

export function labelOf(panes) {
  return panes.map((pane) => `${pane.y}, at the end: ${pane.lines.map((line) => `${line.name} ${pane.text(line.mean.at(-1))}`).join("; ")}`).join(". ");
}

// A row for each round, or for each place on the axis where lines know no rounds: what every line says there.
export function tableOf(panes, { title = "Round" } = {}) {
  const lines = panes.flatMap((pane) => pane.lines.filter((line) => !line.hidden).map((line) => ({ ...line, pane, at: line.t ?? line.x })));
  const places = lines.map((line) => new Map(line.at.map((value, i) => [value, i])));
  const named = (line) => (panes.length > 1 && line.name !== "price" ? `${line.name}, ${line.pane.y.toLowerCase()}` : line.name);
  const cell = (line, i) => (i === undefined || line.mean[i] === null ? "–" : withInterval(line.mean[i], line.half?.[i], line.pane.text));
  return {
    columns: [title, ...lines.map(named)],
    rows: [...new Set(lines.flatMap((line) => line.at))].sort((a, b) => a - b).map((value) => [
      title === "Round" ? whole(value) : number(value), ...lines.map((line, k) => cell(line, places[k].get(value))),
    ]),
  };
}

// All that is drawn, number by number.
export function longTable(lines, axis, keys = ["name"]) {
  const row = (line, x, i) => [...keys.map((key) => line[key]), x, line.mean[i] ?? "", line.half?.[i] ?? ""];
  return { columns: [...keys, axis, "mean", "half"], rows: lines.flatMap((line) => line.x.map((x, i) => row(line, x, i))) };
}
