// The gate itself: one run, or a rehearsal where there is none, as a picture that moves.

import { aborted, get, post, runPath } from "../api.js";
import { remember } from "../address.js";
import { go } from "../app.js";
import { h, put, refill, s } from "../../drawing/dom.js";
import { fixed, number, percent, whole } from "../../drawing/format.js";
import { modelOf } from "../gate/model.js";
import { Player } from "../gate/player.js";
import { Scene } from "../gate/scene.js";
import { Timeline } from "../gate/timeline.js";
import { Tour } from "../gate/tour.js";
import { sentence, tourOf } from "../gate/words.js";
import { failure, skeleton } from "../marks.js";
import { fromQuery, POLICIES, toQuery, toRequest } from "../planning.js";
import { onTheme } from "../../drawing/theme.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const ROUNDS = 1000; // as many as one answer holds

// A rehearsal worth watching: the adaptive interval stays open for long.
const SHOWN = { rounds: 80, K: 5, gamma: 0.9, phi: 0.9, burst: true };

const rewind = () => s("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, s("path", { d: "M2 2h2.500v12H2zM14 2v12L5.500 8z", fill: "currentColor" }));

export async function open({ main, signal, name, query }) {
  const plan = { ...fromQuery(query), ...(query.has("prices") ? {} : SHOWN) };
  const reduced = window.matchMedia("(prefers-reduced-motion: reduce)");
  put(main, heading(), skeleton(1, "stage"));
  let trace;
  let offered = null;
  try {
    trace = await load();
    const { rows } = await get("/runs", { limit: 30 }, signal);
    offered = rows.map((row) => row.name);
  } catch (error) {
    if (aborted(error)) return;
    if (!trace) {
      refill(main, heading(), failure(error, () => location.reload()));
      return;
    }
  }
  if (!trace.t.length) {
    refill(main, heading(), h("div", { class: "empty" }, h("h2", null, "No round was played yet"), h("p", null, "Come back when the first is done.")));
    return;
  }

  const model = modelOf(trace);
  const canvas = h("canvas", { class: "stage-canvas", role: "img", tabindex: "0" });
  const bars = h("canvas", { class: "bars", "aria-hidden": "true" });
  const scene = new Scene(canvas);
  const timeline = new Timeline(bars);
  const words = h("p", { class: "sentence" });
  const readout = h("dl", { class: "readout" });
  const numbers = {};
  for (const [key, title] of [["round", "Round"], ["price", "Price"], ["admitted", "Let in"], ["spend", "Paid"], ["mean", "A round, so far"], ["debt", "Debt Z"], ["n", "In memory, n"], ["accuracy", "Accuracy"]]) {
    if (key === "accuracy" && !trace.accuracy?.some((value) => value !== null)) continue;
    numbers[key] = h("dd", { class: "numeral" });
    put(readout, h("div", null, h("dt", null, title), numbers[key]));
  }
  const handle = h("input", { type: "range", class: "handle", min: 0, max: model.rounds, step: "any", value: 0, "aria-label": "Round" });
  const play = h("button", { type: "button", class: "strong play", onclick: () => player.toggle() });
  const speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one} ×`)));
  const player = new Player(model.rounds, moved, settled);
  const tour = new Tour(tourOf(model), scene, player);

  refill(main, heading(), choosers(),
    h("div", { class: "stage" }, h("div", { class: "canvas-place" }, canvas), words,
      h("div", { class: "bars-place" }, bars, handle),
      h("p", { class: "below bars-about" }, "Above, the samples let in each round; beneath, the price, orange where it is above the mean. Drag to move in time."),
      h("div", { class: "controls", role: "group", "aria-label": "Playing" },
        h("button", { type: "button", "aria-label": "To the beginning", onclick: () => { player.pause(); player.seek(0); } }, rewind()),
        h("button", { type: "button", "aria-label": "One round back", onclick: () => player.step(-1) }, "−1"),
        play,
        h("button", { type: "button", "aria-label": "One round on", onclick: () => player.step(1) }, "+1"),
        h("label", { class: "speed" }, "Speed ", speed),
        h("span", { class: "keys soft" }, h("kbd", null, "space"), " plays, ", h("kbd", null, "←"), " ", h("kbd", null, "→"), " step")),
      readout),
    tour.node,
    h("p", { class: "below" }, trace.recorded ? "How many samples each client lets in and holds is as recorded; which of them leave is drawn as the oldest first." : "What each client let in was not recorded by this older run, so all clients are drawn as one buffer."),
    trace.rounds > model.rounds && h("p", { class: "below" }, `The first ${whole(model.rounds)} of ${whole(trace.rounds)} rounds.`));

  scene.prepare(model);
  timeline.prepare(model);
  player.still = reduced.matches;
  player.seek(Math.min(model.rounds, Math.max(0, Number(query.get("round")) || 0)));
  wire();
  if (!reduced.matches && !query.has("round")) player.play();

  async function load() {
    if (name) return get(runPath(name, "/trace"), { policy: query.get("policy"), seed: query.get("seed"), limit: ROUNDS }, signal);
    const told = await post("/plan", toRequest({ ...plan, rounds: Math.min(plan.rounds, ROUNDS), seeds: 1 }, null, { trace: true }), signal);
    return { ...told.trace, K: told.plan.K };
  }

  function heading() {
    return [
      h("p", { class: "eyebrow" }, name ? [h("a", { href: "/" }, "Runs"), " / ", h("a", { href: `/run/${encodeURIComponent(name)}` }, name)] : "A rehearsal, without learning"),
      h("h1", null, "The gate"),
      h("p", { class: "lede" }, "Data stream past. Each sample costs today’s price, memory is small, and money is short. How far should the gate open?"),
    ];
  }

  function choosers() {
    const policies = name ? trace.policies : Object.keys(POLICIES);
    const policy = h("select", { "aria-label": "Policy" }, policies.map((one) => h("option", { value: one, selected: one === trace.policy }, one)));
    policy.addEventListener("change", () => go(name ? address({ policy: policy.value, round: null }) : `/gate?${toQuery({ ...plan, policy: policy.value, K: policy.value === "acdpp" ? plan.K : null })}`));
    const runs = offered?.length > 0 && h("select", { "aria-label": "What is shown" }, h("option", { value: "", selected: !name }, "a rehearsal"), (offered.includes(name) || !name ? offered : [name, ...offered]).map((one) => h("option", { value: one, selected: one === name }, one)));
    if (runs) runs.addEventListener("change", () => go(runs.value ? `/gate/${encodeURIComponent(runs.value)}` : "/gate"));
    const seed = name && trace.seeds.length > 1 && h("select", { "aria-label": "Seed" }, trace.seeds.map((one) => h("option", { value: one, selected: one === trace.seed }, `seed ${one}`)));
    if (seed) seed.addEventListener("change", () => go(address({ policy: trace.policy, seed: seed.value, round: null })));
    return h("div", { class: "toolbar" }, runs && h("label", null, "Show ", runs), h("label", null, "Policy ", policy), seed, !name && h("a", { class: "button", href: `/plan?${toQuery(plan)}` }, "Change the plan"));
  }

  function address(changes) {
    const next = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(changes)) if (value === null) next.delete(key); else next.set(key, value);
    return `${location.pathname}?${next}`;
  }

  function moved(tau) {
    scene.draw(tau);
    timeline.draw(tau);
    handle.value = tau;
    const t = player.round;
    if (t === moved.last) return;
    moved.last = t;
    const at = t - 1;
    words.textContent = sentence(model, t);
    numbers.round.textContent = `${whole(t)} / ${whole(model.rounds)}`;
    numbers.price.textContent = t ? fixed(model.price[at], 2) : "–";
    numbers.admitted.textContent = t ? whole(model.admitted[at]) : "–";
    numbers.spend.textContent = t ? fixed(model.spend[at], 1) : "–";
    numbers.mean.textContent = t ? `${fixed(model.spent[t] / t, 1)} of ${number(model.budget)}` : "–";
    numbers.debt.textContent = fixed(model.debt[t], 1);
    numbers.n.textContent = t ? whole(model.n[at]) : "0";
    if (numbers.accuracy) numbers.accuracy.textContent = percent(t ? trace.accuracy.slice(0, t).findLast((value) => value !== null) : null);
  }

  // What a screen reader hears, and the address, follow when it stands still.
  function settled() {
    play.textContent = player.playing ? "Pause" : player.tau >= model.rounds ? "Play again" : "Play";
    canvas.dataset.playing = String(player.playing);
    const t = player.round;
    handle.setAttribute("aria-valuetext", `Round ${t} of ${model.rounds}. ${sentence(model, t)}`);
    if (player.playing) return;
    canvas.setAttribute("aria-label", `The gate in round ${t} of ${model.rounds}. ${sentence(model, t)}`);
    remember({ round: t || null });
  }

  function wire() {
    handle.addEventListener("input", () => {
      player.pause();
      player.seek(Number(handle.value));
    });
    handle.addEventListener("keydown", arrows);
    speed.addEventListener("change", () => { player.speed = Number(speed.value); });
    document.addEventListener("keydown", (event) => {
      const busy = /^(INPUT|SELECT|TEXTAREA|BUTTON|A|SUMMARY)$/.test(document.activeElement.tagName);
      if (busy || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === " ") {
        event.preventDefault();
        player.toggle();
      } else arrows(event);
    }, { signal });
    const again = () => {
      scene.recolour();
      timeline.recolour();
      scene.draw(player.tau);
      timeline.draw(player.tau);
    };
    const forget = onTheme(again);
    const watcher = new ResizeObserver(() => {
      if (Math.abs(canvas.parentElement.clientWidth - scene.layout.width) < 1) return;
      scene.resize();
      timeline.resize();
      scene.draw(player.tau);
      timeline.draw(player.tau);
    });
    watcher.observe(canvas.parentElement);
    reduced.addEventListener("change", () => { player.still = reduced.matches; }, { signal });
    signal.addEventListener("abort", () => {
      player.pause();
      forget();
      watcher.disconnect();
    });
  }

  function arrows(event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (event.key === "Escape" && scene.shown) tour.leave();
    else if (event.key === "Home") player.seek(0);
    else if (event.key === "End") player.seek(model.rounds);
    else if (by) player.step(by);
    else if (event.key === " " && event.currentTarget === handle) player.toggle();
    else return;
    event.preventDefault();
  }
}
