// What each policy came to, in a table; the same numbers as in the report.

import { h, indexed, refill } from "../drawing/dom.js";
import { fixed, number, percent, whole } from "../drawing/format.js";
import { swatch } from "../drawing/legend.js";

const estimate = (value) => (value ? (value.half === null ? percent(value.mean) : `${fixed(100 * value.mean, 1)} ± ${fixed(100 * value.half, 1)}\u00a0%`) : "–");
const signed = (value) => (value === null ? "–" : `${value > 0 ? "+" : ""}${whole(value)}`);

const COLUMNS = [
  ["Best accuracy", "best test accuracy of a run, mean over runs ± 80 % interval of this mean", (s) => estimate(s.best_accuracy)],
  ["Final accuracy", "test accuracy at the last evaluation, mean over runs ± 80 % interval", (s) => estimate(s.final_accuracy)],
  ["Round at target", "first round whose accuracy reaches the target, mean over the runs that do, and how many do", (s) => (s.first_round === null ? "–" : `${fixed(s.first_round, 1)} (${s.reached} of ${s.runs})`), (run) => run.target],
  ["Spend a round", "money really spent, mean over rounds and runs", (s) => fixed(s.spend_per_round, 2)],
  ["Of budget", "the same in % of the budget", (s) => [percent(s.spend_share, 0), s.spend_share > 1.02]],
  ["Vio_S", "money above the budget over all rounds, in the mean over runs", (s) => number(s.cost_violation)],
  ["Vio_B", "samples above the buffers, summed over rounds and clients", (s) => number(s.buffer_violation)],
  ["Peak n", "most samples in memory, all clients together", (s) => whole(s.peak_n)],
  ["Max n_m − B_m", "most samples that one client held above its buffer", (s) => [signed(s.peak_excess), s.peak_excess > 0]],
  ["N", "distinct samples at the end", (s) => whole(s.N)],
  ["N_eff", "effective samples at the end, less than N when some are used more often", (s) => whole(s.n_eff)],
  ["Bound", "learning bound, summed over rounds", (s) => number(s.bound)],
  ["Diverged", "runs whose model was lost; they are in no other number", (s) => whole(s.diverged), (run) => run.diverged.length],
];

export class SummaryTable {
  constructor(run, looks) {
    this.looks = looks;
    this.head = h("tr");
    this.body = h("tbody");
    this.meanings = h("dl", { class: "meanings" });
    this.node = h("div", null,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results of each policy" }, h("table", { class: "summary" }, h("thead", null, this.head), this.body)),
      h("details", { class: "meaning" }, h("summary", null, "What the columns mean"), this.meanings));
    this.update(run);
  }

  update(run) {
    const columns = COLUMNS.filter(([, , , when]) => !when || when(run));
    const cell = (said) => (Array.isArray(said) ? h("td", { class: said[1] ? "over" : null }, said[0]) : h("td", null, said));
    refill(this.head, h("th", { scope: "col" }, "Policy"), columns.map(([title, meaning]) => h("th", { scope: "col", title: meaning }, indexed(title))));
    refill(this.body, run.summary.map((one) => h("tr", null, h("th", { scope: "row" }, h("span", { class: "name" }, swatch(this.looks[run.policies.indexOf(one.policy)]), one.policy)), columns.map(([, , text]) => cell(text(one))))));
    refill(this.meanings, columns.map(([title, meaning]) => h("div", null, h("dt", null, indexed(title)), h("dd", null, meaning))));
  }
}
