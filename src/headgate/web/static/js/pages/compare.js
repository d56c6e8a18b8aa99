// Any runs and policies side by side, round by round, and what differs between them.

import { aborted, get } from "../api.js";
import { remember } from "../address.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { asCsv, Figure } from "../../drawing/figure.js";
import { fixed, number, percent, plural, whole } from "../../drawing/format.js";
import { swatch } from "../../drawing/legend.js";
import { lineFigure, pressed } from "../../drawing/lines.js";
import { labelOf, longTable, tableOf } from "../../drawing/numbers.js";
import { failure, skeleton, stateMark } from "../marks.js";
import { looks as looksOf } from "../../drawing/palette.js";
import { RunPicker } from "../picker.js";
import { runTitle } from "../words.js";

const share = { scale: 100, digits: ".1f", unit: " %", text: (value) => fixed(value, 1), least: 0, most: 100 };
const METRICS = {
  best_accuracy: { title: "Test accuracy, best so far", y: "Test accuracy, best so far (%)", ...share },
  accuracy: { title: "Test accuracy", y: "Test accuracy (%)", ...share },
  test_loss: { title: "Test loss", y: "Test loss", digits: ".4~g", text: number },
  train_loss: { title: "Training loss", y: "Training loss", digits: ".4~g", text: number },
  spent: { title: "Money spent", y: "Money, all rounds so far", digits: ",.0f", text: number },
  debt: { title: "Debt Z", y: "Money", digits: ",.1f", text: number },
  admitted: { title: "Samples let in", y: "Samples a round", digits: ",.1f", text: number },
  n: { title: "Samples in memory, n", y: "Samples", digits: ",.1f", text: number },
  N: { title: "Distinct samples, N", y: "Samples", digits: ",.0f", text: number },
  n_eff: { title: "Effective samples, N_eff", y: "Samples", digits: ",.0f", text: number },
  bound: { title: "Learning bound", y: "Bound, each round", digits: ".4~g", text: number },
};

export function open({ main, signal, query }) {
  const view = {
    runs: query.getAll("runs"), policies: query.getAll("policies"),
    metric: query.get("metric") in METRICS ? query.get("metric") : "best_accuracy",
    toRun: query.get("to_run"), toPolicy: query.get("to_policy"),
  };
  let answer = null;
  let asking = null;
  const known = new Set(view.policies); // policies that were offered

  const picker = new RunPicker(view.runs, (names) => {
    view.runs = names;
    if (!names.includes(view.toRun)) view.toRun = view.toPolicy = null;
    load();
  }, signal);
  const policies = h("div", { class: "legend", role: "group", "aria-label": "Policies compared" });
  const metric = h("select", { "aria-label": "What is compared" }, Object.entries(METRICS).map(([key, { title }]) => h("option", { value: key, selected: key === view.metric }, title)));
  metric.addEventListener("change", () => { view.metric = metric.value; load(); });
  const lines = new Figure({ title: "Side by side", wide: true, tall: true, signal, content: () => answer && lineContent(), csv: () => asCsv(longTable(answer.lines, "t", ["run", "policy"])) });
  const gaps = new Figure({ title: "Differences", wide: true, signal, content: () => answer && gapContent(), csv: () => asCsv(longTable(answer.differences, "t", ["run", "policy"])) });
  const needs = h("p", { class: "lede needs" });
  const table = h("div");
  const settings = h("section");
  const result = h("div", { hidden: true }, needs, h("div", { class: "toolbar" }, metric), policies, h("div", { class: "grid" }, lines.node), table, h("h2", null, "Differences"), h("p", { class: "hint gap-hint" }), h("div", { class: "grid" }, gaps.node), settings);
  const to = h("select", { "aria-label": "Compared with" });
  to.addEventListener("change", () => { [view.toRun, view.toPolicy] = JSON.parse(to.value); load(); });
  result.querySelector(".gap-hint").before(h("div", { class: "toolbar to-line" }, h("label", null, "Compared with ", to)));
  const empty = h("div");
  put(main, h("h1", null, "Compare"), picker.node, empty, result);
  load();

  async function load() {
    remember({ to_run: view.toRun, to_policy: view.toPolicy, metric: view.metric === "best_accuracy" ? null : view.metric });
    rememberLists();
    asking?.abort();
    if (!view.runs.length) {
      result.hidden = true;
      refill(empty, h("div", { class: "empty" }, h("h2", null, "Choose what to compare"), h("p", null, "Add runs above, or choose some in the ", h("a", { href: "/" }, "list of runs"), ". One run compares its policies.")));
      return;
    }
    asking = new AbortController();
    if (!answer) refill(empty, skeleton(1, "figure"));
    const asked = new URLSearchParams([...view.runs.map((name) => ["runs", name]), ...view.policies.map((name) => ["policies", name]), ["metric", view.metric], ...(view.toRun ? [["to_run", view.toRun], ["to_policy", view.toPolicy]] : [])]);
    try {
      answer = await get(`/compare?${asked}`, null, AbortSignal.any([asking.signal, signal]));
    } catch (error) {
      if (aborted(error)) return;
      answer = null;
      result.hidden = true;
      refill(empty, failure(error, load));
      return;
    }
    empty.replaceChildren();
    result.hidden = false;
    show();
  }

  // The lists may hold names with commas, so their keys are repeated.
  function rememberLists() {
    const given = new URLSearchParams(location.search);
    for (const key of ["runs", "policies"]) {
      given.delete(key);
      for (const name of view[key]) given.append(key, name);
    }
    history.replaceState(null, "", `${location.pathname}${given.size ? `?${given}` : ""}`);
  }

  function show() {
    answer.looks = looksOf(answer.lines);
    for (const line of answer.lines) known.add(line.policy);
    needs.textContent = answer.savings;
    needs.hidden = !answer.savings;
    showPolicies();
    lines.update();
    const some = answer.differences.length > 0;
    for (const node of [gaps.node, result.querySelector("h2"), result.querySelector(".gap-hint"), result.querySelector(".to-line")]) node.hidden = !some;
    if (some) {
      const first = base();
      refill(to, answer.lines.map((line) => h("option", { value: JSON.stringify([line.run, line.policy]), selected: line === first }, named(line))));
      result.querySelector(".gap-hint").textContent = `Each line minus ${named(first)}, seed by seed over the seeds that both have. Above zero is more.`;
      gaps.update();
    }
    refill(table, finalTable());
    refill(settings, settingsTable());
    say(`${plural(answer.lines.length, "line")} compared`);
  }

  function showPolicies() {
    refill(policies, [...known].map((policy) => {
      const on = !view.policies.length || view.policies.includes(policy);
      const look = answer.looks[answer.lines.findIndex((line) => line.policy === policy)];
      return h("button", { type: "button", class: "chip", "aria-pressed": String(on), onclick: () => toggle(policy, on) }, look && swatch({ ...look, dash: 0 }), policy);
    }));
  }

  function toggle(policy, on) {
    const now = view.policies.length ? view.policies : [...known];
    const next = on ? now.filter((one) => one !== policy) : [...now, policy];
    view.policies = next.length === known.size || !next.length ? [] : next;
    if (view.policies.length && !view.policies.includes(view.toPolicy)) view.toRun = view.toPolicy = null;
    load();
  }

  // The line that the others are compared with.
  const base = () => answer.lines[answer.base];

  const several = () => answer.runs.length > 1;
  const named = (line) => (several() ? `${runTitle(line.run)}: ${line.policy}` : line.policy);

  function drawn(list, looks) {
    const { scale = 1 } = METRICS[view.metric];
    const scaled = (values) => values && values.map((value) => (value === null ? null : value * scale));
    return list.map((line, i) => ({ name: named(line), look: looks[i], x: line.x, mean: scaled(line.mean), half: scaled(line.half) })).filter((line) => line.x.length);
  }

  function lineContent() {
    const pane = METRICS[view.metric];
    const all = drawn(answer.lines, answer.looks);
    const panes = [{ ...pane, lines: all, log: pressed(all) }];
    return { ...lineFigure({ x: "Round", panes }), label: labelOf(panes), table: tableOf(panes) };
  }

  function gapContent() {
    const { title, y, least, most, ...pane } = METRICS[view.metric];
    const places = answer.differences.map((one) => answer.lines.findIndex((line) => line.run === one.run && line.policy === one.policy));
    const all = drawn(answer.differences, places.map((place) => answer.looks[place]));
    const unit = pane.unit ? "percentage points" : y.toLowerCase();
    const panes = [{ ...pane, unit: pane.unit ? " points" : "", digits: `+${pane.digits}`, y: `Difference (${unit})`, lines: all, levels: [{ value: 0, text: named(base()) }] }];
    return { ...lineFigure({ x: "Round", panes }), label: `Difference of ${title} to ${named(base())}`, table: tableOf(panes) };
  }

  function finalTable() {
    const { title, scale = 1, text, unit = "" } = METRICS[view.metric];
    const said = (value, sign) => {
      if (!value) return "–";
      const mean = `${sign && value.mean > 0 ? "+" : ""}${text(scale * value.mean)}`;
      const after = unit && sign ? " points" : unit;
      return value.half === null || value.half === undefined ? `${mean}${after}` : `${mean} ± ${text(scale * value.half)}${after}`;
    };
    const gap = (line) => answer.differences.find((one) => one.run === line.run && one.policy === line.policy);
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "At the end" }, h("table", null,
      h("thead", null, h("tr", null, ["At the end", title, "Difference", "Seeds", "Spend a round", "Over budget"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", null, answer.lines.map((line, i) => {
        const one = gap(line);
        const clear = one?.end && one.end.half !== null && Math.abs(one.end.mean) > one.end.half;
        return h("tr", null,
          h("th", { scope: "row" }, h("span", { class: "name" }, swatch(answer.looks[i]), named(line))),
          h("td", null, said(line.end)),
          h("td", { class: clear ? "clear" : null }, one ? said(one.end, true) : "–"),
          h("td", null, whole(line.seeds)),
          h("td", null, number(line.spend_per_round)),
          h("td", { class: line.runs_over_budget ? "over" : null }, line.dearest_share === null ? "–" : `${whole(line.runs_over_budget)} of ${whole(line.runs)}, dearest ${percent(line.dearest_share, 0)}`));
      }))));
  }

  function settingsTable() {
    if (!several()) return null;
    const text = (value) => (Array.isArray(value) ? value.map(text).join(", ") : value === null ? "–" : typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value));
    return [
      h("h2", null, "Settings that differ"),
      answer.settings.length
        ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Settings that differ" }, h("table", { class: "settings-table" },
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "Setting"), answer.runs.map((run) => h("th", { scope: "col" }, h("span", { class: "name" }, runTitle(run.name)), " ", stateMark(run.state))))),
          h("tbody", null, answer.settings.map(({ key, values }) => h("tr", null, h("th", { scope: "row" }, h("code", null, key)), values.map((value) => h("td", null, text(value))))))))
        : h("p", null, "None: all runs were made from the same settings."),
    ];
  }
}
