// The figures of a run: which numbers, under which title, with which line to compare with.

import { h } from "./dom.js";
import { asCsv, Figure } from "./figure.js";
import { fixed, number } from "./format.js";
import { lineFigure, pressed } from "./lines.js";
import { labelOf, longTable, tableOf } from "./numbers.js";

const accuracy = { scale: 100, digits: ".1f", unit: " %", least: 0, most: 100, text: (value) => `${fixed(value, 1)} %` };
const money = { digits: ",.2f", least: 0, text: (value) => fixed(value, 2) };
const loss = { digits: ".4~g", least: 0, text: number };
const count = { digits: ",.1f", least: 0, text: number };

// Each pane shows one series.
const SECTIONS = [
  {
    title: "Learning",
    figures: [
      { key: "best_accuracy", title: "Test accuracy", panes: [{ ...accuracy, series: "best_accuracy", y: "Best so far (%)" }],
        about: "Mean over seeds and the 80 % interval of this mean." },
      { key: "accuracy", title: "Test accuracy of the day", changing: true, panes: [{ ...accuracy, series: "accuracy", y: "By the concepts of the day (%)", level: "changes" }],
        about: "The dashed lines are rounds in which the world begins to change for all seeds." },
      { key: "test_loss", title: "Test loss", panes: [{ ...loss, series: "test_loss", y: "Test loss" }] },
      { key: "train_loss", title: "Training loss", panes: [{ ...loss, series: "train_loss", y: "Mean loss in memory" }] },
      { key: "bound", title: "Bound, each round", panes: [{ ...loss, series: "bound", y: "Bound" }],
        about: "The round’s term of Theorem 1. Beside the test loss, look at the shapes: the units differ." },
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

const MARKED = 20; // changes that a figure marks, the first of them

// Lines to compare with, of one run or several; where they differ, each says whose it is.
export function levelsOf(runs, curves) {
  const level = (what, key) => [...new Set(runs.map((run) => run[key]))].map((value, _, all) => ({
    value, text: `${what} ${number(value)}${all.length > 1 ? ` (${runs.filter((run) => run[key] === value).map((run) => run.name).join(", ")})` : ""}`,
  }));
  const changes = [...new Set([...curves.values()].flatMap((one) => one.changes))].sort((a, b) => a - b).slice(0, MARKED);
  return { budget: level("budget", "budget"), memory: level("all buffers", "memory"), changes: changes.map((t) => ({ axis: "x", value: t, text: `change in round ${t}` })) };
}

// One measured series of a policy: { t, mean, half }.
function seriesOf(one, key) {
  const judged = key in one.judged;
  return { t: judged ? one.evaluated : one.t, ...(judged ? one.judged : one.series)[key] };
}

// What to draw of one figure; null before the first round.
function contentOf(spec, { names, curves, looks, hidden, levels }) {
  if (spec.changing && !levels.changes.length) return null;
  const drawn = spec.panes.map((pane) => {
    const lines = (pane.once ? names.slice(0, 1) : names).map((name, i) => ({ ...lineOf(pane, curves.get(name)), name: pane.once ? "price" : name, look: pane.once ? { colour: 6, dash: 0 } : looks[i], hidden: !pane.once && hidden.has(name) })).filter((line) => line.x.length);
    return { ...pane, lines, levels: pane.level ? levels[pane.level] : [], log: pressed(lines) };
  });
  const panes = drawn.filter((pane) => pane.lines.length);
  if (!panes.length) return null;
  const numbers = panes.flatMap((pane) => pane.lines.map((line) => ({ ...line, policy: line.name, series: pane.series })));
  return { ...lineFigure({ x: "Round", panes }), label: labelOf(panes), table: tableOf(panes), csv: longTable(numbers, "t", ["policy", "series"]) };
}

function lineOf(pane, one) {
  const { t, mean, half } = seriesOf(one, pane.series);
  const at = t.map((_, i) => i).filter((i) => mean[i] !== null);
  const rounds = at.map((i) => t[i]);
  const scale = (values) => values && at.map((i) => (values[i] === null ? null : values[i] * (pane.scale || 1) / (pane.perRound ? t[i] : 1)));
  return { x: rounds, t: rounds, mean: scale(mean), half: scale(half) };
}

// The sections, and the figures in them. `state` gives { names, curves by name, looks, hidden, levels } as things stand.
export function sectionsOf({ state, signal, heat, shaped = (content) => content }) {
  const figures = [];
  const made = (spec) => {
    const content = () => contentOf(spec, state());
    figures.push(new Figure({ ...spec, signal, content: () => shaped(content()), csv: () => asCsv(content().csv) }));
    return figures.at(-1).node;
  };
  const sections = SECTIONS.map(({ title, figures: specs }) => {
    const drawn = specs.filter((spec) => contentOf(spec, state()));
    const grid = drawn.length === 3 && !drawn.some((spec) => spec.wide) ? "grid three" : "grid";
    return drawn.length > 0 && h("section", { "aria-label": title }, h("h3", { class: "ruled" }, title), h("div", { class: grid }, drawn.map(made), title === "Memory" && heat));
  });
  return { figures, sections };
}
