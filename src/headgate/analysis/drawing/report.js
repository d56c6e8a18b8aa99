// The report: the page of a run, from the numbers that stand in this file.

import { facts, settings } from "./about.js";
import { h, put } from "./dom.js";
import { asCsv, Figure } from "./figure.js";
import { fixed } from "./format.js";
import { heatContent } from "./heat.js";
import { legend } from "./legend.js";
import { lineFigure } from "./lines.js";
import { labelOf, longTable, tableOf } from "./numbers.js";
import { looks as looksOf, style } from "./palette.js";
import { levelsOf, sectionsOf } from "./run_figures.js";
import { SummaryTable } from "./summary.js";
import { startTheme } from "./theme.js";

const data = JSON.parse(document.getElementById("data").textContent);
const { signal } = new AbortController();
const hidden = new Set();
let printing = false;
const shown = data.runs.filter((run) => run.shown);
const names = data.drawn.map(({ name }) => name);
const looks = looksOf(data.drawn);
const curves = new Map(data.drawn.map((one) => [one.name, one.curves]));
const levels = levelsOf(shown, curves);

// Accuracy of whole runs over the money that they spent.
function moneyPanes({ y, curves: lines, levels: beside }) {
  const drawn = lines.map(({ policy, ...line }) => ({ name: names[policy], look: looks[policy], ...line }));
  return [{ y, digits: ".1f", unit: " %", least: 0, most: 100, text: (value) => `${fixed(value, 1)} %`, lines: drawn, levels: beside }];
}

function moneyFigure(panel) {
  const content = () => {
    const panes = moneyPanes(panel);
    const figure = lineFigure({ x: panel.x, logX: true, panes, marks: true });
    if (panel.gap) gapBetween(figure.layout, panel.gap);
    return onPaper({ ...figure, label: labelOf(panes), table: tableOf(panes, { title: "Money" }) });
  };
  return new Figure({ title: panel.title, tall: true, signal, content, csv: () => asCsv(longTable(moneyPanes(panel)[0].lines, "money")) });
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
  if (printing && content) Object.assign(content.layout, { autosize: false, width: wide ? 670 : 322, height: wide ? 250 : 235, showlegend: !wide, legend: { orientation: "h", y: -0.3, font: { size: 9 } } });
  return content;
}

function heatFigure() {
  const strays = data.heats.map(({ ratio }) => ratio.flat().reduce((most, share) => Math.max(most, share === null ? 0 : Math.abs(share - 1)), 0));
  let chosen = strays.indexOf(Math.max(...strays)); // the map that has most to show comes first
  const policy = h("select", { "aria-label": "Policy of the buffer map" }, data.heats.map((heat, i) => h("option", { value: i, selected: i === chosen }, heat.policy)));
  const content = () => heatContent(data.heats[chosen]);
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

const all = [];

function moneySection({ panel, rival, needs, reached, budget }) {
  const figure = moneyFigure(panel);
  all.push(figure);
  const head = ["Policy", "Needs a round", `Of what ${rival} spends (95 % interval)`];
  return h("section", { "aria-labelledby": "money" }, h("h2", { id: "money" }, "Money for the same accuracy"), figure.node,
    h("div", { class: "scroll" }, h("table", { class: "summary" }, h("thead", null, h("tr", null, head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", null, needs.map(([policy, ...cells]) => h("tr", null, h("th", { scope: "row" }, policy), cells.map((text) => h("td", null, text))))))),
    h("p", { class: "hint" }, `What each policy needs ${reached}. Accuracy is that of the last tenth of the rounds, mean over seeds; between budgets it is interpolated. The figures over rounds below are of the runs at ${budget} a round.`));
}

function figureSection() {
  if (![...curves.values()].some((one) => one.rounds)) return null;
  const heat = data.heats.length > 0 && heatFigure();
  const { figures, sections } = sectionsOf({ state: () => ({ names, curves, looks, hidden, levels }), signal, heat: heat && heat.node, shaped: onPaper });
  all.push(...figures, ...(heat ? [heat] : []));
  return [h("h2", null, "Figures"),
    h("p", { class: "hint" }, "Lines are means over seeds, bands the 80 % interval of the mean. Choose policies below: a click hides or shows one, a double click shows it alone."),
    legend(names, looks, hidden, redraw), sections];
}

const redraw = () => { for (const figure of all) figure.draw(); };
const stateOf = ({ state, round, rounds }) => (state === "finished" ? `finished, ${rounds} rounds` : `${state}, round ${round} of ${rounds}`);
const unbroken = (text) => text.replaceAll(" ± ", "\u00a0±\u00a0").replaceAll(" %", "\u00a0%"); // no line ends within a number

put(document.querySelector("main"),
  h("h1", null, data.title),
  data.sentence && h("p", { class: "lede" }, unbroken(data.sentence)),
  data.money && moneySection(data.money),
  shown.map((run) => [shown.length > 1 && h("h2", { class: "run" }, run.name), h("p", { class: "status-line" }, stateOf(run)), facts(run)]),
  h("section", { "aria-labelledby": "results" }, h("h2", { id: "results" }, "Results"),
    !data.drawn.some((one) => one.curves.rounds) && h("p", { class: "note" }, "No round has been recorded yet."),
    data.warning && h("p", { class: "note warn" }, data.warning),
    new SummaryTable(data.lines.map(({ name }) => name), data.table, looksOf(data.lines)).node),
  h("section", { id: "figures", "aria-label": "Figures", tabindex: "-1" }, figureSection()),
  h("section", { class: "settings", "aria-labelledby": "settings" }, h("h2", { id: "settings" }, "Settings and environment"),
    data.runs.map((run) => [data.runs.length > 1 && h("h3", null, run.name), settings(run)])));
redraw();
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
