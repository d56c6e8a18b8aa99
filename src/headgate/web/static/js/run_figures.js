// The figures of a run: which numbers, under which title, with which line to compare with.

import { fixed, number, whole } from "../drawing/format.js";
import { lineFigure, pressed } from "../drawing/lines.js";
import { labelOf, longTable, tableOf } from "../drawing/numbers.js";

const accuracy = { scale: 100, digits: ".1f", unit: " %", least: 0, most: 100, text: (value) => `${fixed(value, 1)} %` };
const money = { digits: ",.2f", least: 0, text: (value) => fixed(value, 2) };
const count = { digits: ",.1f", least: 0, text: number };

// Each pane shows one series.
export const SECTIONS = [
  {
    title: "Learning",
    figures: [
      { key: "best_accuracy", title: "Test accuracy", panes: [{ ...accuracy, series: "best_accuracy", y: "Best so far (%)" }],
        about: "Mean over seeds and the 80 % interval of this mean." },
      { key: "bound", title: "Bound, and the loss that came", tall: true, panes: [
        { series: "bound", y: "Bound, each round", digits: ".4~g", least: 0, text: number, share: 0.5 },
        { series: "test_loss", y: "Test loss", digits: ".4~g", least: 0, text: number, share: 0.5 }],
        about: "Above, the round’s term of Theorem 1; beneath, the loss on test data. Different units: look at the shapes." },
    ],
  },
  {
    title: "Money",
    figures: [
      { key: "spent", title: "Money a round, so far", panes: [{ ...money, series: "spent", y: "Money a round", perRound: true, level: "budget" }],
        about: "All that was spent, divided by the rounds so far. At the dashed line the budget is kept." },
      { key: "debt", title: "Debt Z", panes: [{ ...count, series: "debt", y: "Money", from: "tozero" }],
        about: "Grows by what a round spends above the budget, falls by what it leaves; never below zero." },
      { key: "admitted", title: "Samples let in, and the price", tall: true, wide: true, panes: [
        { ...count, series: "admitted", y: "Samples a round", from: "tozero" },
        { ...money, series: "price", y: "Price", from: "tozero", share: 0.36, once: true }] },
    ],
  },
  {
    title: "Memory",
    figures: [
      { key: "n", title: "Samples in memory, n", panes: [{ ...count, series: "n", y: "Samples", level: "memory", from: "tozero" }] },
      { key: "N", title: "Distinct samples so far, N", panes: [{ ...count, digits: ",.0f", series: "N", y: "Samples" }] },
      { key: "n_eff", title: "Effective samples, N_eff", panes: [{ ...count, digits: ",.0f", series: "n_eff", y: "Samples" }],
        about: "As many samples, used equally often, would be worth as much. Less than N where some are used more than others." },
    ],
  },
];

const LEVELS = {
  budget: ({ budget }) => ({ value: budget, text: `budget ${number(budget)}` }),
  memory: ({ memory }) => ({ value: memory, text: `all buffers ${whole(memory)}` }),
};

// What to draw of one figure; null before the first round.
export function contentOf(spec, { run, curves, looks, hidden }) {
  const panes = spec.panes.map((pane) => {
    const names = pane.once ? run.policies.slice(0, 1) : run.policies;
    const lines = names.map((policy) => ({ ...lineOf(pane, curves, policy), name: pane.once ? "price" : policy, look: pane.once ? { colour: 6, dash: 0 } : looks[run.policies.indexOf(policy)], hidden: !pane.once && hidden.has(policy) })).filter((line) => line.x.length);
    return { ...pane, lines, levels: pane.level ? [LEVELS[pane.level](run)] : [], log: pressed(lines) };
  });
  if (!panes.some((pane) => pane.lines.length)) return null;
  const numbers = panes.flatMap((pane) => pane.lines.map((line) => ({ ...line, policy: line.name, series: pane.series })));
  return { ...lineFigure({ x: "Round", panes }), label: labelOf(panes), table: tableOf(panes), csv: longTable(numbers, "t", ["policy", "series"]) };
}

function lineOf(pane, curves, policy) {
  const { t, mean, half } = curves.series(policy, pane.series);
  const at = t.map((_, i) => i).filter((i) => mean[i] !== null);
  const rounds = at.map((i) => t[i]);
  const scale = (values) => values && at.map((i) => (values[i] === null ? null : values[i] * (pane.scale || 1) / (pane.perRound ? t[i] : 1)));
  return { x: rounds, t: rounds, mean: scale(mean), half: scale(half) };
}
