// Before anything runs: buffers, money, prices and rounds in; spend, memory and bounds out, while one drags.

import { aborted, get, post } from "../api.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { PlanAnswer } from "../plan_answer.js";
import { planForm } from "../plan_form.js";
import { DEFAULTS, fromQuery, toQuery, toRequest } from "../planning.js";

const PAUSE = 60; // ms after the last movement

export async function open({ main, signal, query }) {
  let plan = fromQuery(query);
  let offered = { policies: { [plan.policy]: [] }, recipes: [], limits: {} };
  let timer = 0;
  let asking = false;
  let changed = false;

  const form = h("form", { class: "plan-form", "aria-label": "What is given", onsubmit: (event) => event.preventDefault() });
  const answer = new PlanAnswer(signal, () => plan);
  put(main,
    h("h1", null, "Plan"),
    h("p", { class: "lede" }, "Say what you have: memory, money, prices and time. headgate says how much to let in each round, what it will cost and how close that comes to the best."),
    h("div", { class: "plan" }, form, answer.node));

  try {
    offered = await get("/plan", null, signal);
  } catch (error) {
    if (aborted(error)) return;
  }
  if (plan.recipe && !query.has("buffers")) plan = withRecipe(plan, plan.recipe);
  build();
  ask();

  function build() {
    refill(form, planForm({ plan, offered, change, recipe: (name) => { plan = withRecipe(plan, name); build(); soon(); } }));
  }

  function withRecipe(old, name) {
    const recipe = offered.recipes.find((one) => one.name === name);
    if (!recipe) return { ...old, recipe: "" };
    const { kind, ...process } = recipe.prices;
    const { buffers, budget, clients } = recipe.system;
    return { ...DEFAULTS, recipe: name, buffers, budget, clients: Math.min(clients || buffers.length, offered.limits.clients || 1000), rounds: recipe.rounds, kind, process, policy: old.policy };
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
    const bound = offered.recipes.find((one) => one.name === asked.recipe)?.bound;
    try {
      const told = await post("/plan", toRequest(asked, offered.policies[asked.policy] || [], bound), signal);
      if (changed) return;
      right();
      answer.show(told, asked);
      say(told.plan.warning || (told.plan.K ? `K is ${told.plan.K}` : "Planned"));
    } catch (error) {
      if (aborted(error) || changed) return;
      wrong(error);
      answer.refused(error.message);
    }
  }

  // What the server refuses is said beside the field it names.
  function wrong(error) {
    right();
    const field = [...form.querySelectorAll("[data-setting]")].find((node) => error.message.replace(/^plan\./, "").startsWith(node.dataset.setting));
    const place = field?.querySelector(".field-wrong");
    if (!place) return;
    place.hidden = false;
    place.textContent = error.message;
    for (const input of field.querySelectorAll("input")) input.setAttribute("aria-invalid", "true");
  }

  function right() {
    for (const place of form.querySelectorAll(".field-wrong")) place.hidden = true;
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }
}
