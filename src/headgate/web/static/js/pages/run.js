// One run, also while it is played.

import { aborted, get, runPath } from "../api.js";
import { list, remember } from "../address.js";
import { Curves } from "../curves.js";
import { facts, settings } from "../../drawing/about.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { asCsv, Figure } from "../../drawing/figure.js";
import { whole } from "../../drawing/format.js";
import { heatContent } from "../../drawing/heat.js";
import { copyButton, failure, note, progress, skeleton, stateMark } from "../marks.js";
import { legend } from "../../drawing/legend.js";
import { looks as looksOf } from "../../drawing/palette.js";
import { levelsOf, sectionsOf } from "../../drawing/run_figures.js";
import { SummaryTable } from "../../drawing/summary.js";
import { runTitle } from "../words.js";

const PAUSE = 1000; // ms between two looks at a run that is played
const LAST = ["finished", "diverged"];

export async function open({ main, signal, name, query }) {
  const view = { hidden: new Set(list(query.get("hide"))), heat: query.get("policy"), seed: query.get("seed") };
  const curves = new Curves(name, signal);
  let run = null;
  let clients = null;
  let figures = [];
  let heat = null;

  put(main, h("p", { class: "eyebrow" }, h("a", { href: "/" }, "Runs"), " / "), h("h1", null, runTitle(name)), skeleton(2), skeleton(1, "figure"));
  try {
    [run] = await Promise.all([get(runPath(name), null, signal), curves.refresh()]);
  } catch (error) {
    if (!aborted(error)) refill(main, h("h1", null, runTitle(name)), failure(error, () => location.reload()));
    return;
  }
  const looks = looksOf(run.policies.map((policy) => ({ run: name, policy })));
  const liveMark = h("span", { class: "live-mark" });
  const status = h("p", { class: "status-line" });
  const said = h("div");
  const notes = h("div");
  const table = new SummaryTable(run.policies, run.table, looks);
  const figuresPlace = h("div");
  refill(main, heading(run), status, said, h("h2", null, "Results"), notes, table.node, figuresPlace,
    h("section", { "aria-labelledby": "settings-title" }, h("h2", { id: "settings-title" }, "Settings and environment"), settings(run, copyButton(() => run.toml, "Copy as TOML"))));
  showHead();
  showResults();
  drawFigures();
  if (!LAST.includes(run.state)) follow();

  // Only what changes is drawn again: the keyboard's focus stays where it is.
  function showHead() {
    const { state, round, rounds } = run;
    refill(status, stateMark(state), h("span", { class: "numeral" }, `round ${whole(round)} of ${whole(rounds)}`), state !== "finished" && progress(round, rounds, "Rounds done"), liveMark);
    refill(said, run.conclusion && h("p", { class: "lede" }, run.conclusion), facts(run));
  }

  function showResults() {
    refill(notes, run.warning && note(run.warning, "warn"), run.note && note(run.note));
    table.update(run.table);
  }

  function drawFigures() {
    if (!curves.reached()) {
      refill(figuresPlace, h("h2", null, "Figures"), h("div", { class: "empty" }, h("p", null, run.state === "running" ? "The first round is under way. The figures appear when it is done." : "No round is done.")));
      return;
    }
    const state = () => ({ names: run.policies, curves: curves.policies, looks, hidden: view.hidden, levels: levelsOf([run], curves.policies) });
    const drawn = sectionsOf({ state, signal, heat: run.recorded && heatFigure() });
    figures = drawn.figures;
    refill(figuresPlace, h("h2", null, "Figures"), chooser(), drawn.sections);
  }

  function chooser() {
    return legend(run.policies, looks, view.hidden, () => {
      remember({ hide: [...view.hidden].join(",") });
      for (const figure of figures) figure.update();
    });
  }

  function heatFigure() {
    if (!run.policies.includes(view.heat)) view.heat = run.policies.find((policy) => policy !== "oracle") || run.policies[0];
    const policy = h("select", { "aria-label": "Policy of the buffer map" }, run.policies.map((one) => h("option", { value: one, selected: one === view.heat }, one)));
    const seed = h("select", { "aria-label": "Seed of the buffer map" }, h("option", { value: "" }, "mean of seeds"), run.seeds.map((one) => h("option", { value: one, selected: String(one) === view.seed }, `seed ${one}`)));
    for (const select of [policy, seed]) {
      select.addEventListener("change", () => {
        Object.assign(view, { heat: policy.value, seed: seed.value || null });
        remember({ policy: view.heat, seed: view.seed });
        refreshHeat();
      });
    }
    heat = new Figure({
      title: "How full the buffers are, client by client", wide: true, signal, tools: [policy, seed],
      about: "Samples a client holds, relative to its buffer B_m. The neutral colour is exactly full, blue has room, orange is over.",
      content: () => clients && heatContent(clients), csv: () => asCsv(heatContent(clients).table),
    });
    refreshHeat();
    return heat.node;
  }

  async function refreshHeat() {
    if (!heat && !run.recorded) return;
    try {
      clients = await get(runPath(name, "/clients"), { policy: view.heat, seed: view.seed }, signal);
      heat?.update();
    } catch (error) {
      if (!aborted(error)) heat?.failed(error.message);
    }
  }

  // While it is played: the rounds that came, then state and results, then the map of the buffers.
  async function follow() {
    const mark = (state) => {
      liveMark.className = `live-mark ${state}`;
      liveMark.textContent = state;
    };
    curves.state = null; // it may have gone on since it was first looked at
    while (!signal.aborted && !LAST.includes(run.state)) {
      try {
        if (await curves.refresh()) await showNew();
        mark(LAST.includes(run.state) ? "" : "live");
      } catch {
        curves.state = null; // whatever comes next is new
        mark("reconnecting");
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }

  async function showNew() {
    const before = run;
    run = await get(runPath(name), null, signal);
    showHead();
    if (before.state !== run.state) say(`The run is ${run.state}`);
    showResults();
    if (!figures.length || run.recorded !== before.recorded) drawFigures();
    for (const figure of figures) figure.update();
    await refreshHeat();
  }
}

function heading(run) {
  return [
    h("p", { class: "eyebrow" }, h("a", { href: "/" }, "Runs"), run.sweep && [" / ", h("a", { href: `/?search=${encodeURIComponent(run.sweep)}` }, run.sweep)]),
    h("div", { class: "title-line" }, h("h1", null, runTitle(run.name)),
      h("div", { class: "title-links" }, h("a", { class: "button", href: `/compare?runs=${encodeURIComponent(run.name)}` }, "Compare"))),
  ];
}
