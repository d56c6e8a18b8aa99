// What happens, in words: a sentence for every round, and a tour that explains the whole in a minute.

import { fixed, number, plural, whole } from "../../drawing/format.js";

const FOLLOWS_DEBT = new Set(["acdpp", "dpp", "released"]);
const price = (value) => fixed(value, value < 100 ? 2 : 0);

export function sentence(model, t) {
  if (t < 1) return "Before the first round. The buffers are empty, or hold what was there from the beginning.";
  const [cost, admitted, spend] = [model.price[t - 1], model.admitted[t - 1], model.spend[t - 1]];
  const [before, after] = [model.debt[t - 1], model.debt[t]];
  const how = cost <= 0.6 * model.meanPrice ? "cheap" : cost <= model.meanPrice ? "below the mean" : cost <= 1.4 * model.meanPrice ? "above the mean" : "dear";
  const let_in = admitted ? `${plural(admitted, "sample")} let in for ${number(Math.round(10 * spend) / 10)}` : "nothing is let in, the clients train on what they hold";
  const over = spend - model.budget;
  const money = Math.abs(over) < 0.005 * model.budget ? "just the budget" : over > 0 ? `${number(Math.round(10 * over) / 10)} above the budget` : `${number(Math.round(-10 * over) / 10)} below the budget`;
  const debt = after > before + 1e-9 ? `debt rises to ${number(Math.round(after))}` : after < before - 1e-9 ? `debt falls to ${number(Math.round(after))}` : after > 0 ? `debt stays at ${number(Math.round(after))}` : "no debt";
  return `Price ${price(cost)}, ${how}: ${let_in}; ${money}, ${debt}.`;
}

// Each stop: the part to look at, a round that shows it, and what to say.
export function tourOf(model) {
  const T = model.rounds;
  const order = [...Array(T).keys()];
  const settled = order.filter((t) => t >= Math.min(T - 1, 3));
  const best = (score, among = settled) => among.reduce((a, b) => (score(b) > score(a) ? b : a), among[0] ?? 0) + 1;
  const cheap = best((t) => model.admitted[t] / model.fullOpening - model.price[t] / model.highPrice);
  const dear = best((t) => model.price[t] / model.highPrice - model.admitted[t] / model.fullOpening);
  const deep = best((t) => model.debt[t + 1], order);
  const falling = order.filter((t) => t >= deep && model.debt[t + 1] < model.debt[t]);
  const kept = model.K ? Math.min(T, model.K + 2) : Math.min(T, Math.max(2, Math.round(T / 6)));
  const over = model.held.some((row) => row.some((n, m) => n > model.buffers[m]));
  return [
    { show: "stream", round: 1, title: "A round", text: "Every round, new samples stream past each client. Letting one in means paying for it: labels, energy, traffic. What is not let in flows past and costs nothing. Then the clients train on what they hold, and the server averages." },
    { show: "price", round: cheap, title: "Prices change", text: `Today a sample costs ${price(model.price[cheap - 1])}, the mean is ${price(model.meanPrice)}. Nobody knows tomorrow’s price. The allowance is ${number(model.budget)} a round, on average: spend less now, and there is more for later.` },
    { show: "gate", round: dear, title: "Why wait", text: `At ${price(model.price[dear - 1])} the gate lets in ${whole(model.admitted[dear - 1])}. The samples in memory still teach something, so waiting costs a little learning and saves money. The rule weighs the two, every round, without knowing what comes.` },
    { show: "debt", round: Math.min(T, falling.length ? falling[0] + 1 : deep), title: "Debt keeps the promise", text: FOLLOWS_DEBT.has(model.policy) ? "Spending above the allowance fills the basin; spending less drains it. The fuller it is, the more a high price hurts in the rule, and the less is let in. So the average stays near the allowance without a plan for the prices." : "Spending above the allowance fills the basin; spending less drains it. The paper’s rule lets in less the fuller it is. This policy keeps its own accounts instead: watch how the basin fills and drains all the same." },
    { show: "buffers", round: kept, title: "What K does", text: `${model.K ? `Here a sample stays K = ${model.K} rounds, then makes room.` : "A sample stays until newer ones need its place."} A large K: every sample is used often, and there is money left, but the model learns the same few by heart. A small K: always fresh, and dear. Fresh ones are dark, old ones pale${over ? "; an orange ring is a sample above its buffer" : ""}.` },
    { show: null, round: T, title: "All together", text: `${plural(T, "round")}: ${number(model.spent[T] / T)} spent a round of ${number(model.budget)} allowed, at most ${whole(Math.max(...model.n))} samples in memory${lastAccuracy(model)}. Move the handle, or try another policy, and see what it does with the same prices.` },
  ];
}

function lastAccuracy(model) {
  const last = (model.accuracy || []).filter((value) => value !== null).at(-1);
  return last === undefined ? "" : `, test accuracy ${fixed(100 * last, 1)} %`;
}
