// Before anything runs: money, prices, rounds and memory in; what it costs in all, what one gets and saves out, while one drags.

import { aborted, get, post } from "../api.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { number } from "../../drawing/format.js";
import { PlanAnswer } from "../plan_answer.js";
import { planForm } from "../plan_form.js";
import { DEFAULTS, fromPrices, fromQuery, toQuery, toRequest } from "../planning.js";
import { reasonOf, runTitle } from "../words.js";

const PAUSE = 60; // ms after the last movement

export async function open({ main, signal, query }) {
  let plan = fromQuery(query);
  let offered = { policies: { [plan.policy]: [] }, starts: [], limits: {} };
  let timer = 0;
  let asking = false;
  let changed = false;

  const form = h("form", { class: "plan-form", "aria-label": "What is given", onsubmit: (event) => event.preventDefault() });
  const answer = new PlanAnswer(signal);
  put(main,
    h("h1", null, "Plan"),
    h("p", { class: "lede" }, "What it costs in all, what you get for it, and what you save beside buying evenly."),
    h("div", { class: "plan" }, form, answer.node));

  try {
    const { recipes, finished, ...others } = await get("/plan", null, signal);
    offered = { ...others, starts: [...finished.map(ofRuns), ...recipes.map(ofRecipe)].filter(({ prices }) => fromPrices(prices)) };
  } catch (error) {
    if (aborted(error)) return;
  }
  const first = offered.starts.find(({ runs }) => runs.length);
  if (!query.size && first) plan = withStart(plan, first.key); // what was learnt here says more than an example
  if (plan.recipe && !query.has("buffers")) plan = withStart(plan, plan.recipe);
  build();
  ask();

  function build() {
    refill(form, planForm({ plan, offered, change, recipe: (key) => { plan = withStart(plan, key); build(); soon(); } }));
  }

  function start({ recipe }) {
    return offered.starts.find(({ key }) => key === recipe);
  }

  function withStart(old, key) {
    const found = start({ recipe: key });
    if (!found) return { ...old, recipe: "" };
    const { buffers, budget, clients, currency } = found.system;
    return { ...DEFAULTS, recipe: key, currency: currency || "", buffers, budget, clients: clients || buffers.length, rounds: found.rounds, ...fromPrices(found.prices), policy: old.policy };
  }

  // `rebuild` where other fields belong to it.
  function change(changes, rebuild = false) {
    plan = { ...plan, ...changes };
    if (rebuild) build();
    soon();
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  }

  // One question at a time: what is moved meanwhile is asked for next.
  async function ask() {
    history.replaceState(null, "", `/plan?${toQuery(plan)}`);
    changed = true;
    if (asking) return;
    asking = true;
    while (changed && !signal.aborted) {
      changed = false;
      answer.busy();
      await askOnce(plan);
    }
    asking = false;
  }

  async function askOnce(asked) {
    if (asked.kind === "list" && !asked.process.text.trim()) return refuse("prices.csv: paste your prices, or choose a CSV file");
    try {
      const told = await post("/plan", toRequest(asked, offered.policies[asked.policy] || [], start(asked)), signal);
      if (changed) return undefined;
      right();
      say(answer.show(told, start(asked)));
    } catch (error) {
      if (!aborted(error) && !changed) refuse(error.message);
    }
    return undefined;
  }

  // What the server refuses is said beside the field it is about, in the words of this field.
  function refuse(message) {
    right();
    const { setting, reason } = reasonOf(message);
    const fits = (name) => (setting === name || setting.startsWith(`${name}.`) ? name.length : 0);
    const closeness = (node) => Math.max(...node.dataset.setting.split(" ").map(fits));
    const [field] = [...form.querySelectorAll("[data-setting]")].sort((a, b) => closeness(b) - closeness(a));
    if (!field || !closeness(field)) return answer.refused(message);
    const text = `${field.dataset.label}: ${reason}`;
    const place = field.querySelector(".field-wrong");
    place.hidden = false;
    place.textContent = text;
    for (const input of field.querySelectorAll("input, textarea, select")) input.setAttribute("aria-invalid", "true");
    return answer.refused(text);
  }

  function right() {
    for (const place of form.querySelectorAll(".field-wrong")) place.hidden = true;
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }
}

const ofRecipe = (recipe) => ({ ...recipe, key: recipe.name, title: `the recipe ${recipe.name}` });

function ofRuns(runs) {
  const budgets = runs.budgets.map(number).join(", ");
  return { ...runs, key: `runs/${runs.name}`, title: `${runTitle(runs.name)}: ${[runs.data, runs.model].filter(Boolean).join(", ")} at ${budgets} a round` };
}
