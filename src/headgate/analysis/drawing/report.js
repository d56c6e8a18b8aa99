// The report: figures as on the page, from the numbers that stand in this file.

import { h, put } from "./dom.js";
import { asCsv, Figure } from "./figure.js";
import { fixed, number } from "./format.js";
import { heatContent } from "./heat.js";
import { legend } from "./legend.js";
import { lineFigure } from "./lines.js";
import { labelOf, longTable, tableOf } from "./numbers.js";
import { style } from "./palette.js";
import { startTheme } from "./theme.js";

const SECTIONS = [
  ["Accuracy", ["accuracy", "accuracy-daily"]],
  ["Money", ["spend", "debt"]],
  ["Memory and samples", ["heat", "n", "N", "n_eff"]],
  ["Learning", ["bound", "train_loss", "test_loss"]],
];
const data = JSON.parse(document.getElementById("data").textContent);
const { signal } = new AbortController();
const hidden = new Set();
let printing = false;

function panesOf(panel) {
  const share = panel.key.startsWith("accuracy");
  const lines = panel.curves.map((curve) => {
    const { name, ...look } = data.series[curve.series];
    return { name, look, x: curve.x || curve.t, t: curve.t, mean: curve.mean, half: curve.half, hidden: hidden.has(name) };
  });
  return [{ ...panel, lines, least: 0, most: share ? 100 : undefined, unit: share ? " %" : "", text: share ? (value) => `${fixed(value, 1)} %` : number }];
}

function lineContent(panel) {
  const panes = panesOf(panel);
  const figure = lineFigure({ x: panel.x, logX: panel.log_x, panes, marks: panel.x !== "Round" });
  if (panel.gap) gapBetween(figure.layout, panel.gap);
  return onPaper({ ...figure, label: labelOf(panes), table: tableOf(panes, { title: panel.x === "Round" ? "Round" : "Money" }) });
}

// An arrow between the money of two policies at the same accuracy. Places on a logarithmic axis are powers of ten.
function gapBetween(layout, { money, beside, accuracy, text }) {
  const colour = style("--bad");
  const [from, to] = [Math.log10(beside), Math.log10(money)];
  layout.annotations.push(
    { x: to, y: accuracy, ax: from, ay: accuracy, axref: "x", ayref: "y", showarrow: true, arrowhead: 2, arrowwidth: 2, arrowcolor: colour, text: "" },
    { x: (from + to) / 2, y: accuracy, yanchor: "top", showarrow: false, text, font: { size: 13, color: colour } });
}

// Paper is narrow, and there is no pointer to ask whose line it is.
function onPaper(content, wide = false) {
  if (printing) Object.assign(content.layout, { autosize: false, width: wide ? 670 : 322, height: wide ? 250 : 235, showlegend: !wide, legend: { orientation: "h", y: -0.3, font: { size: 9 } } });
  return content;
}

function heatFigure() {
  const strays = data.heats.map(({ ratio }) => ratio.flat().reduce((most, share) => Math.max(most, share === null ? 0 : Math.abs(share - 1)), 0));
  let chosen = strays.indexOf(Math.max(...strays)); // the map that has most to show comes first
  const policy = h("select", { "aria-label": "Policy of the buffer map" }, data.heats.map(({ series }, i) => h("option", { value: i, selected: i === chosen }, data.series[series].name)));
  const content = () => heatContent({ ...data.heats[chosen], policy: data.series[data.heats[chosen].series].name });
  const figure = new Figure({
    title: "How full the buffers are, client by client", wide: true, signal, tools: policy,
    about: "Samples a client holds, relative to its buffer B_m; mean over seeds. The neutral colour is exactly full, blue has room, orange is over.",
    content: () => onPaper(content(), true), csv: () => asCsv(content().table),
  });
  policy.addEventListener("change", () => {
    chosen = Number(policy.value);
    figure.update();
  });
  return figure;
}

const figures = new Map(data.panels.map((panel) => [panel.key, new Figure({ title: panel.title, tall: panel.x !== "Round", signal, content: () => lineContent(panel), csv: () => asCsv(longTable(panesOf(panel)[0].lines, panel.x === "Round" ? "t" : "money")) })]));
if (data.heats.length) figures.set("heat", heatFigure());

const redraw = () => { for (const figure of figures.values()) figure.draw(); };

if (figures.size) {
  const money = figures.get("accuracy-money");
  if (money) put(document.getElementById("over-money"), money.node);
  put(document.getElementById("figures"), h("h2", null, "Figures"),
    h("p", { class: "hint" }, "Lines are means over seeds, bands the 80 % interval of the mean. Choose policies below: a click hides or shows one, a double click shows it alone."),
    legend(data.series.map(({ name }) => name), data.series, hidden, redraw),
    SECTIONS.map(([title, keys]) => [title, keys.filter((key) => figures.has(key))]).filter(([, keys]) => keys.length).map(([title, keys]) => h("section", { "aria-label": title }, h("h3", { class: "ruled" }, title),
      h("div", { class: keys.length > 2 ? "grid three" : "grid" }, keys.map((key) => figures.get(key).node)))));
  redraw();
}
startTheme(document.getElementById("theme"));

// Paper is white.
let before = "";
window.addEventListener("beforeprint", () => {
  before = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  printing = true;
  redraw();
});
window.addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = before;
  printing = false;
  redraw();
});
