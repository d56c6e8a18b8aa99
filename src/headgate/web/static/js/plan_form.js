// The fields of the planner.

import { h, refill } from "../drawing/dom.js";
import { plural, whole } from "../drawing/format.js";
import { selectField, Slider, textField } from "./fields.js";
import { canKeep, columnIn, listIn, POLICIES, priceDefaults, PRICES, wholes } from "./planning.js";

export function planForm({ plan, offered, change, recipe }) {
  const group = (title, ...fields) => h("fieldset", { class: "group" }, h("legend", null, title), fields);
  return [
    selectField({ label: "Start from", value: plan.recipe, options: [["", "your own"], ...offered.starts.map(({ key, title }) => [key, title])], changed: recipe }),
    group("Money and time",
      new Slider({ label: "Budget a round", least: 1, most: 1000, step: 0.1, scale: "log", value: plan.budget, setting: "system.budget", changed: (budget) => change({ budget }) }).node,
      new Slider({ label: "Rounds", least: 10, most: 2000, step: 1, scale: "log", value: plan.rounds, setting: "run.rounds", changed: (rounds) => change({ rounds }) }).node,
      textField({ label: "Currency", value: plan.currency, setting: "system.currency", parse: (text) => text.trim().slice(0, 8), short: true, changed: (currency) => change({ currency }) })),
    group("Prices", priceFields(plan, offered, change)),
    group("Memory", memoryFields(plan, offered, change)),
    group("Policy", policyFields(plan, offered, change)),
  ];
}

// The list of buffers and its mean move together.
function memoryFields(plan, offered, change) {
  const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
  let { buffers } = plan;
  const size = new Slider({
    label: "Buffer of a client", unit: "samples, mean", least: 1, most: 200, step: 1, scale: "log", value: Math.round(mean(buffers)), setting: "system.buffers",
    changed: (value) => {
      const scale = value / Math.max(0.5, mean(plan.buffers));
      buffers = plan.buffers.map((buffer) => Math.max(1, Math.round(buffer * scale)));
      text.querySelector("input").value = buffers.join(", ");
      change({ buffers });
    },
  });
  const text = textField({
    label: "Each client’s, in turn", value: buffers.join(", "), parse: wholes, about: "whole numbers; a list shorter than the clients is repeated",
    changed: (given) => {
      buffers = given;
      plan = { ...plan, buffers };
      size.set(Math.round(mean(given)));
      change({ buffers });
    },
  });
  const clients = new Slider({ label: "Clients", least: 1, most: 200, step: 1, scale: "log", value: plan.clients, setting: "system.clients", changed: (value) => change({ clients: value }) });
  return [clients.node, size.node, text];
}

function priceFields(plan, offered, change) {
  const kind = selectField({
    label: "Prices are", value: plan.kind, about: PRICES[plan.kind].about, setting: "prices.kind", options: Object.entries(PRICES).map(([key, { title }]) => [key, title]),
    changed: (chosen) => change({ kind: chosen, process: priceDefaults(chosen) }, true),
  });
  const process = { ...plan.process };
  if (plan.kind === "list") return [kind, priceList(process, plan.rounds, change)];
  return [kind, Object.entries(PRICES[plan.kind].fields).map(([name, [label, , least, most, step]]) => {
    const changed = (value) => {
      process[name] = value;
      change({ process: { ...process } });
    };
    const setting = `prices.${name}`;
    if (typeof process[name] === "boolean") return h("label", { class: "check" }, h("input", { type: "checkbox", checked: process[name], onchange: (event) => changed(event.target.checked) }), label);
    if (typeof process[name] === "object") return textField({ label, setting, value: JSON.stringify(process[name]), parse: numbers, changed });
    return new Slider({ label, setting, least: least || 0, most, step, value: process[name], changed }).node;
  })];
}

const MOST = 200_000; // characters, as the server takes them

function priceList(process, rounds, change) {
  const give = (changes) => change({ process: { ...Object.assign(process, changes) } });
  const area = h("textarea", { id: "price-list", rows: 6, value: process.text, spellcheck: "false", autocomplete: "off", placeholder: "date,price\n2026-01-01,0.05\n2026-01-02,0.11" });
  const wrong = h("p", { class: "field-wrong", role: "alert", hidden: true });
  const found = h("div", { class: "group-part" });
  const take = (text) => {
    wrong.hidden = text.length <= MOST;
    wrong.textContent = `Price list: ${whole(text.length)} characters; at most ${whole(MOST)}`;
    if (!wrong.hidden) return;
    give({ text, column: columnIn(text, process.column) });
    look();
  };
  const look = () => {
    const { columns, prices } = listIn(process.text);
    const choose = ["", "choose the prices"];
    refill(found,
      columns.length > 1 && selectField({ label: "Column", value: process.column, setting: "prices.column", options: [choose, ...columns.map((name) => [name, name])], changed: (column) => give({ column }) }),
      prices > 1 && prices !== rounds && h("button", { type: "button", onclick: () => change({ rounds: prices }, true) }, `Plan ${plural(prices, "round")}, one for each price`));
  };
  area.addEventListener("input", () => take(area.value));
  const file = h("input", { type: "file", accept: ".csv,.txt,text/csv,text/plain", "aria-label": "Price list, a CSV file" });
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    area.value = await file.files[0].slice(0, 4 * MOST).text();
    take(area.value);
  });
  look();
  return [
    h("div", { class: "field text", "data-setting": "prices.csv prices", "data-label": "Price list" }, h("label", { for: "price-list" }, "Prices, one a round"), area, file, wrong),
    found,
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: process.repeat, onchange: (event) => give({ repeat: event.target.checked }) }), "Start over at its end"),
  ];
}

function numbers(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function policyFields(plan, offered, change) {
  const settingsOf = (policy) => offered.policies[policy] || [];
  const settings = settingsOf(plan.policy);
  const setting = (name) => `policies.${plan.policy}.${name}`;
  const names = Object.keys(POLICIES).filter((name) => name in offered.policies);
  const fields = [selectField({ label: "Policy", value: plan.policy, about: POLICIES[plan.policy], setting: "policy", options: (names.length ? names : [plan.policy]).map((name) => [name, name]), changed: (policy) => change(settingsOf(policy).includes("K") ? { policy } : { policy, K: null }, true) })];
  if (settings.includes("K")) {
    const slider = new Slider({ label: "K", unit: "rounds a sample is kept", least: 1, most: 60, step: 1, scale: "log", value: plan.K ?? 10, setting: setting("K"), changed: (K) => change({ K }) });
    slider.node.hidden = plan.K === null;
    const choose = h("input", { type: "checkbox", checked: plan.K === null, id: "choose-K" });
    choose.addEventListener("change", () => {
      slider.node.hidden = choose.checked;
      change({ K: choose.checked ? null : slider.value });
    });
    fields.push(h("label", { class: "check" }, choose, "Choose K for me"), slider.node);
  }
  const check = (key, label, about) => h("div", { class: "field text" }, h("label", { class: "check" }, h("input", { type: "checkbox", checked: plan[key], onchange: (event) => change({ [key]: event.target.checked }) }), label), h("p", { class: "field-about" }, about));
  if (canKeep(settings)) fields.push(check("kept", "Keep both limits", "capacity = \"buffer\", purse = true: full buffers drop their oldest sample, and no run spends more than its budget"));
  if (settings.includes("burst")) fields.push(check("burst", "Never ask beyond the free places", "the paper’s own rule asks for as much as it likes in round 1"));
  const exponent = (name, label, about) => settings.includes(name) && new Slider({ label, about, least: 0.05, most: name === "quantile" ? 1 : 0.95, step: 0.01, value: plan[name], setting: setting(name), changed: (value) => change({ [name]: value }) }).node;
  if (settings.includes("quantile")) fields.push(exponent("quantile", "Quantile", "0.5: below the median; 1: the same money in every round"));
  const fine = h("details", { class: "fine" }, h("summary", null, "Fine tuning"),
    new Slider({ label: "Rehearsals", about: "each with its own luck of prices", least: 1, most: 20, step: 1, value: plan.seeds, setting: "run.seeds", changed: (seeds) => change({ seeds }) }).node,
    exponent("gamma", "γ", "V = T^γ: how much learning counts beside debt"),
    exponent("phi", "φ", "ρ = 1 − T^−φ: how far a round may leave the rate"));
  return [...fields, fine];
}
