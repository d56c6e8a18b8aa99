// What the planner says: money first, then labels and accuracy beside buying evenly; the paper's quantities behind "More".

import { h, indexed, refill } from "../drawing/dom.js";
import { asCsv, Figure } from "../drawing/figure.js";
import { fixed, number, percent, plural, whole } from "../drawing/format.js";
import { lineFigure, pressed } from "../drawing/lines.js";
import { labelOf, tableOf } from "../drawing/numbers.js";
import { copyButton, skeleton } from "./marks.js";
import { amount, ranged } from "./words.js";

const OURS = { look: { colour: 0, dash: 0 } };
const EVENLY = { name: "evenly", look: { colour: 1, dash: 1 } };
const ORACLE = { series: "oracle_bound", name: "oracle", look: { colour: 6, dash: 0 } };
const DASHED = "Dashed: buying evenly.";
const samples = { y: "Samples", digits: ",.0f", text: number, from: "tozero" };
const PRICE = { y: "Price", digits: ",.4~g", text: number, from: "tozero", share: 0.38, lines: [{ series: "price", name: "price", look: { colour: 6, dash: 0 } }] };
const FIGURES = [
  { title: "Labels bought so far", about: DASHED, panes: [{ ...samples, y: "Labels", lines: [{ series: "bought" }, { ...EVENLY, series: "even_bought" }] }] },
  { title: "Money spent so far", about: DASHED, panes: [{ y: "Money", digits: ",.4~g", text: number, from: "tozero", lines: [{ series: "spent" }, { ...EVENLY, series: "even_spent" }], level: ({ total, unit }) => ({ value: total, text: `in all ${amount(unit, total)}` }) }] },
  { title: "Labels bought in each round, and the price", wide: true, panes: [{ ...samples, y: "Labels a round", digits: ",.1f", lines: [{ series: "admitted" }] }, PRICE] },
];
const FIGURES_OF_PAPER = [
  { title: "Samples in memory, n", panes: [{ ...samples, lines: [{ series: "n" }], level: ({ memory }) => ({ value: memory, text: `all buffers ${whole(memory)}` }) }] },
  { title: "Distinct samples, N", panes: [{ ...samples, lines: [{ series: "N" }] }] },
  { title: "Debt Z", panes: [{ y: "Money", digits: ",.1f", text: number, from: "tozero", lines: [{ series: "debt" }] }] },
  { title: "Bound, each round", panes: [{ y: "Bound", digits: ".4~g", text: number, lines: [{ series: "bound" }, ORACLE] }] },
];

export class PlanAnswer {
  constructor(signal) {
    this.told = null;
    this.tiles = h("div", { class: "tiles" }, skeleton(4, "tiles"));
    this.beside = h("div", { class: "beside" });
    this.paper = h("div", { class: "tiles plain-tiles" });
    this.wrong = h("p", { class: "note warn", role: "alert", hidden: true });
    this.breaks = h("p", { class: "note broken", role: "status", hidden: true });
    const drawn = (specs) => specs.map((spec) => new Figure({ title: spec.title, about: spec.about, wide: spec.wide, signal, content: () => this.told && content(spec, this.told), csv: () => asCsv(rowsOf(spec, this.told)) }));
    const [figures, ofPaper] = [drawn(FIGURES), drawn(FIGURES_OF_PAPER)];
    this.figures = [...figures, ...ofPaper];
    const grid = (list) => h("div", { class: "grid" }, list.map((figure) => figure.node));
    this.node = h("section", { class: "answer", "aria-label": "The plan" }, this.wrong, this.tiles, this.breaks, this.beside,
      h("div", { class: "toolbar copying" }, copyButton(() => this.told?.toml || "", "Copy as TOML")), grid(figures),
      h("details", { class: "more" }, h("summary", null, "More: memory, the bound and the measures of the paper"), this.paper, grid(ofPaper)));
  }

  busy() {
    this.node.setAttribute("aria-busy", "true");
  }

  refused(message) {
    this.node.setAttribute("aria-busy", "false");
    this.node.classList.add("outdated");
    this.wrong.hidden = false;
    this.wrong.textContent = message;
    if (!this.told) this.tiles.replaceChildren();
  }

  // `start`: the recipe or the runs that it began with. Returns the answer in a sentence.
  show(answer, start) {
    const told = { ...answer.summary, ...answer.plan, ...answer, start };
    this.told = told;
    this.node.setAttribute("aria-busy", "false");
    this.node.classList.remove("outdated");
    this.wrong.hidden = true;
    this.breaks.hidden = !told.warning;
    this.breaks.textContent = told.warning && `This plan breaks a limit: ${told.warning}`;
    const tiles = tilesOf(told);
    refill(this.tiles, tiles.map(tile));
    refill(this.beside, unspent(told), besideEvenly(told), accuracyOf(told));
    refill(this.paper, tilesOfPaper(told).map(tile));
    for (const figure of this.figures) {
      figure.node.hidden = !figure.content(); // no empty panel
      figure.update();
    }
    return tiles.map(({ title, value, beside }) => `${title}: ${value}, ${beside}`).join(". ");
  }
}

export function tile({ title, value, beside, over }) {
  return h("div", { class: over ? "tile over" : "tile" }, h("span", { class: "tile-title" }, indexed(title)), h("span", { class: "tile-value" }, value), h("span", { class: "tile-beside" }, indexed(beside)));
}

function tilesOf(told) {
  const { unit, total, bought, evenly, saved, accuracy } = told;
  const difference = bought.labels.mean * (evenly.each.mean - bought.each.mean);
  const known = accuracy.policies[told.policy];
  const { constant } = accuracy.policies;
  return [
    { title: "You spend in all", value: amount(unit, bought.spent.mean), beside: `of at most ${amount(unit, total)}: ${amount(unit, told.budget)} × ${plural(told.rounds, "round")}`, over: told.runs_over_budget > 0 },
    { title: "Labels you get", value: whole(bought.labels.mean), beside: `${amount(unit, bought.each.mean)} each` },
    { title: "You save", value: percent(saved.mean, 0), beside: `${amount(unit, difference)} on these labels` },
    known && { title: "Test accuracy", value: percent(known.mean), beside: constant && told.policy !== "constant" ? `constant: ${percent(constant.mean)}` : "in finished runs" },
  ].filter(Boolean);
}

function besideEvenly({ unit, policy, bought, evenly, saved, runs }) {
  const rows = [
    ["Spent in all", "spent", (value) => amount(unit, value)],
    ["Labels bought", "labels", whole],
    ["Money for a label", "each", (value) => amount(unit, value)],
    ["Most costly round", "dearest", (value) => amount(unit, value)],
  ];
  const cell = (value, text) => h("td", null, text(value.mean), h("span", { class: "small-print soft" }, rangeOf(value, text)));
  return [
    h("table", null,
      h("thead", null, h("tr", null, ["", policy, "evenly"].map((title) => h(title ? "th" : "td", title && { scope: "col" }, title)))),
      h("tbody", null, rows.map(([title, key, text]) => h("tr", null, h("th", { scope: "row" }, title), cell(bought[key], text), cell(evenly[key], text))))),
    h("p", { class: "below" }, `Evenly: the same budget, as much in every round, within the same limits. A label costs ${ranged(saved, (share) => percent(share, 0))} less. `,
      bought.spent.low === bought.spent.high ? "With these prices every rehearsal is alike." : `In brackets: the least and the most of ${plural(runs, "rehearsal")}.`),
  ];
}

const rangeOf = ({ low, high }, text) => (low === null || text(low) === text(high) ? "" : `(${text(low)} … ${text(high)})`);

function accuracyOf({ accuracy: { policies, differs }, start, unit, spend }) {
  const known = Object.entries(policies).filter(([, value]) => value);
  const from = start?.runs.length ? start.title : "";
  if (known.length) {
    const each = known.sort(([, a], [, b]) => b.mean - a.mean).map(([name, value]) => `${name} ${percent(value.mean)}${value.low === null ? "" : ` (${fixed(100 * value.low, 1)} … ${fixed(100 * value.high, 1)})`}`);
    return h("p", null, h("strong", null, `Test accuracy for ${amount(unit, spend)} a round: `), `${each.join(", ")}; in brackets the 95 % interval. From ${from}.`);
  }
  if (!from) return h("p", { class: "below" }, "Which accuracy that gives is known where runs are finished: start from one, or learn with ", h("code", null, "headgate compare"), ".");
  const why = differs.length ? `have other settings (${differs.map((key) => key.split(".").at(-1)).join(", ")})` : "had more or less money than this";
  return h("p", { class: "below" }, `Which accuracy that gives is not known: the runs that this began with ${why}.`);
}

// Where money never runs short, everybody buys all that fits, and there is nothing to save.
function unspent({ unit, bought, saved, total, spend }) {
  const share = bought.spent.mean / total;
  const text = `Only ${percent(share, 0)} of the money is spent.`;
  const idle = Math.abs(saved.mean) < 0.005;
  return share < 0.9 && h("p", { class: "note" }, idle ? `${text} It buys all that fits into memory: choose a budget below ${amount(unit, spend)} a round to see what is saved.` : text);
}

function tilesOfPaper(told) {
  const apart = told.bound !== null && told.oracle_bound ? told.bound / told.oracle_bound : null;
  return [
    told.K !== null && { title: "Keep a sample K rounds", value: whole(told.K), beside: told.rate === null ? "" : `${number(told.rate)} samples let in a round` },
    { title: "Most in memory", value: `${whole(told.peak_n)}`, beside: told.peak_excess > 0 ? `of ${whole(told.memory)}; one client ${whole(told.peak_excess)} over` : `of ${whole(told.memory)}; no client over`, over: told.peak_excess > 0 },
    { title: "Distinct samples", value: whole(told.N), beside: `worth ${whole(told.n_eff)} used equally` },
    apart !== null && { title: "Bound, beside the oracle", value: `${fixed(apart, 2)} ×`, beside: "the oracle pays nothing" },
    { title: "Runs over budget", value: `${whole(told.runs_over_budget)} of ${whole(told.runs)}`, beside: `dearest ${percent(told.dearest_share)}`, over: told.runs_over_budget > 0 },
    { title: "Vio_S and Vio_B", value: `${number(told.cost_violation)}, ${number(told.buffer_violation)}`, beside: "the paper’s violations of money and memory" },
    told.V !== null && { title: "V and ρ", value: [told.V, told.rho].filter((value) => value !== null).map(number).join(", "), beside: "of drift plus penalty" },
  ].filter(Boolean);
}

function lineOf({ series, name, look }, { curves, policy }) {
  const { t, series: all } = curves;
  const { mean, half } = all[series];
  const at = t.map((_, i) => i).filter((i) => mean[i] !== null);
  const x = at.map((i) => t[i]);
  return { name: name ?? policy, look: look ?? OURS.look, x, t: x, mean: at.map((i) => mean[i]), half: half && at.map((i) => half[i]) };
}

// Nothing where nothing is known: the bound is infinite before the first sample.
function content(spec, told) {
  const panes = spec.panes.map((pane) => {
    const lines = pane.lines.map((line) => lineOf(line, told)).filter((line) => line.x.length);
    return { ...pane, lines, levels: pane.level ? [pane.level(told)] : [], least: 0, log: pressed(lines) };
  });
  if (!panes[0].lines.some((line) => line.name === told.policy)) return null;
  const figure = lineFigure({ x: "Round", panes });
  figure.layout.margin.l = 44;
  return { ...figure, label: labelOf(panes), table: tableOf(panes) };
}

function rowsOf(spec, { curves: { t, series } }) {
  const keys = spec.panes.flatMap((pane) => pane.lines.map((line) => line.series));
  return { columns: ["round", ...keys], rows: t.map((round, i) => [round, ...keys.map((key) => series[key].mean[i])]) };
}
