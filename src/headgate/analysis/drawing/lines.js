// Lines with their intervals as Plotly wants them. A figure is one pane, or two over the same rounds.
//
// pane: { y, digits, unit, lines, levels, log, least, most }; line: { name, look, x, mean, half, t, hidden };
// level: { value, text, axis }, axis "x" for one that stands upright

import { colourOf, dashOf, faded, style } from "./palette.js";

const GAP = 0.12; // between two panes

// Names come from files: Plotly would read them as markup.
export const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const narrow = () => window.innerWidth < 550;

export function axis(text, room = 10) {
  return {
    title: { text, font: { size: 12, color: style("--soft") }, standoff: room },
    gridcolor: style("--hair"),
    linecolor: style("--hair"),
    tickfont: { size: 11.5, color: style("--soft") },
    zeroline: false,
    automargin: true,
  };
}

export function frame() {
  return {
    autosize: true,
    margin: { l: 50, r: 12, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: style("--ink") },
    hoverlabel: { bgcolor: style("--page"), bordercolor: style("--edge"), font: { color: style("--ink"), size: 12.5 }, align: "left", namelength: 40 },
    showlegend: false,
    dragmode: narrow() ? false : "zoom", // a finger scrolls the page
    uirevision: "kept", // zoom survives new rounds
  };
}

export function lineFigure({ x, logX, panes, marks = false }) {
  const layout = frame();
  const byRound = x === "Round";
  layout.hovermode = byRound ? "x unified" : "closest";
  layout.xaxis = { ...axis(logX ? `${x}, logarithmic` : x), showgrid: !byRound, unifiedhovertitle: { text: "round %{x:,d}" }, anchor: panes.length > 1 ? "y2" : "y" };
  if (byRound) wholeRounds(layout.xaxis, panes);
  if (logX) logarithmic(layout.xaxis, panes.flatMap((pane) => pane.lines.flatMap((line) => line.x)));
  if (marks) Object.assign(layout, { showlegend: true, legend: { orientation: "h", y: 1.12 } });
  layout.shapes = [];
  layout.annotations = [];
  const traces = [];
  panes.forEach((pane, i) => {
    const name = i ? "y2" : "y";
    const own = { ...axis(pane.log ? `${pane.y}, logarithmic` : pane.y, 6), anchor: "x", domain: domain(i, panes), rangemode: pane.log ? "normal" : pane.from ?? "normal" };
    if (pane.log) logarithmic(own, pane.lines.flatMap((line) => line.mean));
    layout[i ? "yaxis2" : "yaxis"] = own;
    for (const line of pane.lines) traces.push(...traced(pane, line, name, byRound, marks));
    for (const level of pane.levels || []) mark(layout, level, name, level.axis === "x" ? logX : pane.log);
  });
  return { traces, layout };
}

function domain(i, panes) {
  if (panes.length === 1) return [0, 1];
  const share = panes[1].share ?? 0.4;
  return i === 0 ? [share + GAP / 2, 1] : [0, share - GAP / 2];
}

// Whole rounds, as there is no round 2.5, and the last of them, where the axis ends.
function wholeRounds(own, panes) {
  const last = Math.max(1, ...panes.flatMap((pane) => pane.lines.map((line) => line.x[line.x.length - 1] || 1)));
  const rough = last / (narrow() ? 5 : 10);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * [1, 2, 5, 10].find((each) => each * power >= rough));
  const before = Array.from({ length: Math.floor(last / step) }, (_, i) => (i + 1) * step).filter((round) => last - round > step / 2);
  own.tickvals = [...before, last];
}

// 1, 2, 5, 10 over few powers of ten, the powers alone over many.
function logarithmic(own, values) {
  const ends = values.filter((value) => value > 0).map(Math.log10);
  const powers = ends.reduce((a, b) => Math.max(a, b), -Infinity) - ends.reduce((a, b) => Math.min(a, b), Infinity);
  Object.assign(own, { type: "log", dtick: powers < 3 ? "D2" : 1, minorloglabels: "complete" });
}

// A band, as its lower edge and the filled way up to its upper edge, then the mean on top of it.
function traced(pane, line, yaxis, byRound, marks) {
  const colour = colourOf(line.look);
  const own = { type: "scatter", mode: "lines", yaxis, legendgroup: line.name, visible: !line.hidden };
  const shape = pane.step ? "hv" : "linear";
  const spread = line.half && line.half.some((half) => half !== null);
  const mean = {
    ...own,
    x: line.x,
    y: line.mean,
    name: escaped(line.name),
    mode: line.x.length === 1 ? "markers" : marks ? "lines+markers" : "lines",
    line: { color: colour, width: 2, dash: dashOf(line.look), shape },
    customdata: line.x.map((_, i) => [line.t ? line.t[i] : null, spread ? line.half[i] ?? 0 : 0]),
    hovertemplate: template(pane, spread, byRound, line.t),
  };
  if (!spread) return [mean];
  const edge = { ...own, x: line.x, line: { width: 0, shape }, hoverinfo: "skip", showlegend: false };
  const at = (sign) => line.mean.map((value, i) => (value === null ? null : bounded(pane, value, value + sign * (line.half[i] || 0))));
  return [{ ...edge, y: at(-1) }, { ...edge, y: at(1), fill: "tonexty", fillcolor: faded(colour, 0.15) }, mean];
}

// An interval may leave what can be.
function bounded(pane, mean, value) {
  const low = pane.log ? mean / 10 : pane.least ?? -Infinity;
  return Math.min(Math.max(value, low), pane.most ?? Infinity);
}

function template(pane, spread, byRound, rounds) {
  const value = `%{y:${pane.digits}}${spread ? ` ± %{customdata[1]:${pane.digits.replace("+", "")}}` : ""}${pane.unit || ""}`;
  if (byRound) return value;
  return `<b>%{fullData.name}</b><br>${value}<br>money %{x:,.4~g}${rounds ? ", round %{customdata[0]}" : ""}<extra></extra>`;
}

function mark(layout, { value, text, axis: along }, yref, log) {
  if (log && value <= 0) return;
  const upright = along === "x";
  const line = { color: style("--soft"), width: 1.2, dash: "dash" };
  const place = log ? Math.log10(value) : value;
  layout.shapes.push(upright ? { type: "line", yref: "paper", y0: 0, y1: 1, x0: value, x1: value, line } : { type: "line", xref: "paper", x0: 0, x1: 1, yref, y0: value, y1: value, line });
  layout.annotations.push({
    text: escaped(text), showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11.5, color: style("--ink") }, bgcolor: faded(style("--page"), 0.75),
    ...(upright ? { x: place, yref: "paper", y: 0.02, textangle: -90 } : { xref: "paper", x: 1, yref, y: place }),
  });
}

// A logarithmic scale, where else one far-off value would press everything flat.
export function pressed(lines) {
  const every = lines.filter((line) => !line.hidden).flatMap((line) => line.mean).filter((value) => value !== null);
  const last = lines.map((line) => line.mean.at(-1)).filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
  if (!every.length || !last.length) return false;
  return every.every((value) => value > 0) && every.reduce((a, b) => Math.max(a, b)) > 8 * last[last.length >> 1];
}
