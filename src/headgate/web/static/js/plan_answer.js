// What the planner says: the few numbers first, then the curves of the rehearsal.

import { h, indexed, refill } from "../drawing/dom.js";
import { asCsv, Figure } from "../drawing/figure.js";
import { fixed, number, percent, plural, whole } from "../drawing/format.js";
import { lineFigure, pressed } from "../drawing/lines.js";
import { copyButton, skeleton } from "./marks.js";

const BLUE = { colour: 0, dash: 0 };
const PRICE = { colour: 6, dash: 0 };
const FIGURES = [
  { title: "Money a round, so far", y: "Money a round", series: "spent", digits: ",.2f", perRound: true, level: (told) => ({ value: told.budget, text: `budget ${number(told.budget)}` }) },
  { title: "Samples in memory, n", y: "Samples", series: "n", digits: ",.1f", from: "tozero", level: (told) => ({ value: told.memory, text: `all buffers ${whole(told.memory)}` }) },
  { title: "Samples let in, and the price", y: "Samples a round", series: "admitted", digits: ",.1f", from: "tozero", beneath: { series: "price", y: "Price", digits: ",.2f", from: "tozero", share: 0.38 } },
  { title: "Debt Z", y: "Money", series: "debt", digits: ",.1f", from: "tozero" },
  { title: "Bound, each round", y: "Bound", series: "bound", digits: ".4~g", oracle: true },
  { title: "Distinct samples, N", y: "Samples", series: "N", digits: ",.0f" },
];

export class PlanAnswer {
  constructor(signal, plan) {
    this.plan = plan;
    this.told = null;
    this.tiles = h("div", { class: "tiles" }, skeleton(6, "tiles"));
    this.more = h("div");
    this.wrong = h("p", { class: "note warn", role: "alert", hidden: true });
    this.breaks = h("p", { class: "note broken", role: "status", hidden: true });
    this.figures = FIGURES.map((spec) => new Figure({ title: spec.title, signal, content: () => this.told && content(spec, this.told), csv: () => asCsv(rowsOf(spec, this.told)) }));
    this.node = h("section", { class: "answer", "aria-label": "The plan" }, this.wrong, this.breaks, this.tiles,
      h("div", { class: "toolbar copying" }, copyButton(() => this.told?.toml || "", "Copy as TOML")),
      this.more, h("div", { class: "grid" }, this.figures.map((figure) => figure.node)));
  }

  busy() {
    this.node.setAttribute("aria-busy", "true");
  }

  refused(message) {
    this.node.setAttribute("aria-busy", "false");
    this.node.classList.add("outdated");
    this.wrong.hidden = false;
    this.wrong.textContent = message;
  }

  show(answer, plan) {
    const told = { ...answer.summary, ...answer.plan, ...answer };
    this.told = told;
    this.node.setAttribute("aria-busy", "false");
    this.node.classList.remove("outdated");
    this.wrong.hidden = true;
    this.breaks.hidden = !told.warning;
    this.breaks.textContent = told.warning && `This plan breaks a limit: ${told.warning}`;
    refill(this.tiles, tilesOf(told).map(tile));
    refill(this.more, settings(told));
    for (const figure of this.figures) figure.update();
  }
}

function tile({ title, value, beside, over }) {
  return h("div", { class: over ? "tile over" : "tile" }, h("span", { class: "tile-title" }, indexed(title)), h("span", { class: "tile-value" }, value), h("span", { class: "tile-beside" }, indexed(beside)));
}

function tilesOf(told) {
  const apart = told.bound !== null && told.oracle_bound ? told.bound / told.oracle_bound : null;
  return [
    told.K === null ? { title: "Policy", value: told.policy, beside: "no K to choose" } : { title: "Keep a sample K rounds", value: whole(told.K), beside: told.rate === null ? "" : `${number(told.rate)} samples let in a round` },
    { title: "Spend a round", value: fixed(told.spend, 2), beside: `${percent(told.spend / told.budget)} of ${number(told.budget)}; most costly ${fixed(told.peak_spend, 2)}`, over: told.runs_over_budget > 0 },
    { title: "Most in memory", value: `${whole(told.peak_n)}`, beside: told.peak_excess > 0 ? `of ${whole(told.memory)}; one client ${whole(told.peak_excess)} over` : `of ${whole(told.memory)}; no client over`, over: told.peak_excess > 0 },
    { title: "Distinct samples", value: whole(told.N), beside: `worth ${whole(told.n_eff)} used equally` },
    { title: "Bound, beside the oracle", value: apart === null ? "–" : `${fixed(apart, 2)} ×`, beside: "the oracle pays nothing" },
    { title: "Runs over budget", value: `${whole(told.runs_over_budget)} of ${whole(told.runs)}`, beside: `dearest ${percent(told.dearest_share)}; Vio_S ${number(told.cost_violation)}`, over: told.runs_over_budget > 0 },
    { title: "Most in a buffer", value: `${whole(told.peak_buffer)} of ${whole(told.peak_places)}`, beside: `client ${whole(told.peak_client)}; Vio_B ${number(told.buffer_violation)}`, over: told.peak_excess > 0 },
  ];
}

function settings(told) {
  const fine = [told.V !== null && `V ${number(told.V)}`, told.rho !== null && `ρ ${number(told.rho)}`, `${plural(told.runs, "seed")} rehearsed`].filter(Boolean).join(" · ");
  return h("details", { class: "fine" }, h("summary", null, "More"), h("p", { class: "below" }, fine));
}

function line(told, series, look, name, perRound) {
  const { t, series: all } = told.curves;
  const { mean, half } = all[series];
  const at = t.map((_, i) => i).filter((i) => mean[i] !== null);
  const scaled = (values) => values && at.map((i) => (values[i] === null ? null : values[i] / (perRound ? t[i] : 1)));
  const x = at.map((i) => t[i]);
  return { name, look, x, t: x, mean: scaled(mean), half: scaled(half) };
}

function content(spec, told) {
  const lines = [line(told, spec.series, BLUE, told.policy, spec.perRound)];
  if (spec.oracle) lines.push(line(told, "oracle_bound", PRICE, "oracle"));
  if (!lines[0].x.length) return null;
  const panes = [{ ...spec, lines, levels: spec.level ? [spec.level(told)] : [], least: 0, log: pressed(lines) }];
  if (spec.beneath) panes.push({ ...spec.beneath, lines: [line(told, spec.beneath.series, PRICE, "price")], levels: [] });
  const figure = lineFigure({ x: "Round", panes });
  figure.layout.margin.l = 44;
  const rows = rowsOf(spec, told);
  return { ...figure, label: `${told.policy}, at the end: ${number(lines[0].mean.at(-1))}`, table: { columns: rows.columns, rows: rows.rows.map((row) => row.map(number)) } };
}

function rowsOf(spec, told) {
  const { t, series } = told.curves;
  const keys = [spec.series, ...(spec.beneath ? [spec.beneath.series] : []), ...(spec.oracle ? ["oracle_bound"] : [])];
  return { columns: ["round", ...keys], rows: t.map((round, i) => [round, ...keys.map((key) => series[key].mean[i])]) };
}
