// How full the buffers are, client by client, as a map: blue has room, neutral is exactly full, orange is over.

import { number, percent } from "./format.js";
import { axis, escaped, frame } from "./lines.js";
import { style } from "./palette.js";

// clients: { policy, clients, buffers, t, last, ratio }, ratio by client and round.
export function heatContent(clients) {
  const held = clients.ratio.map((row, m) => row.map((share) => (share === null ? null : share * clients.buffers[m])));
  const beside = window.innerWidth >= 550;
  const layout = frame();
  layout.height = Math.min(Math.max(21 * clients.clients.length + 90, 260), 620);
  layout.hovermode = "closest";
  layout.xaxis = { ...axis("Round"), showgrid: false, ...(clients.last <= 10 ? { dtick: 1 } : {}) };
  layout.yaxis = { ...axis("Client"), type: "category", autorange: "reversed", showgrid: false };
  if (!beside) layout.margin.b = 90;
  const trace = {
    type: "heatmap",
    x: clients.t,
    y: clients.clients.map(escaped),
    z: clients.ratio,
    zmin: 0,
    zmax: 2,
    customdata: held.map((row, m) => row.map((count) => [count, clients.buffers[m]])),
    hovertemplate: "client %{y}, round %{x}<br>holds %{customdata[0]:,.4~g} of %{customdata[1]:,.4~g}, %{z:.0%}<extra></extra>",
    colorscale: [[0, style("--c0")], [0.5, style("--full")], [1, style("--c1")]],
    colorbar: {
      orientation: beside ? "v" : "h",
      thickness: 11,
      outlinewidth: 0,
      len: beside ? 1 : 0.9,
      ...(beside ? {} : { y: -0.22, yanchor: "top" }),
      tickvals: [0, 0.5, 1, 1.5, 2],
      ticktext: ["empty", "half", "full", "1.5×", "2× or more"],
      tickfont: { size: 11.5, color: style("--soft") },
    },
  };
  const fullest = Math.max(0, ...clients.ratio.flat().filter((ratio) => ratio !== null));
  return {
    traces: [trace],
    layout,
    label: `${clients.policy}: the fullest buffer held ${percent(fullest, 0)} of its size`,
    table: {
      columns: ["Client", "Buffer B_m", "Mean", "Most", "At the end"],
      rows: held.map((row, m) => [clients.clients[m], number(clients.buffers[m]), number(row.reduce((a, b) => a + b, 0) / Math.max(1, row.length)), number(Math.max(...row)), number(row.at(-1))]),
    },
  };
}
