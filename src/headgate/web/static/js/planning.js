// A plan as the page holds it, as an address says it, and as the server wants it.

const LIST = "headgate-prices"; // where the browser keeps a price list
export const PRICES = {
  list: { title: "My own price list", about: "one price a round: paste it, or choose a CSV file", fields: { text: ["Prices", ""], column: ["Column", ""], repeat: ["Start over at its end", true] } },
  uniform: { title: "Uniform", about: "any price between two, equally likely", fields: { low: ["Lowest", 1, 0.1, 50], high: ["Highest", 10, 0.1, 100] } },
  constant: { title: "Constant", about: "always the same", fields: { value: ["Price", 5, 0.1, 50] } },
  switches: { title: "Switches", about: "levels that follow one another", fields: { levels: ["Levels", [10, 1]], lengths: ["Rounds each", [50, 50]], repeat: ["Again and again", true] } },
  markov: { title: "Markov chain", about: "levels, and the chances to change between them", fields: { levels: ["Levels", [1, 5, 9]], transition: ["Chances, row by row", [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]]] } },
  ercot: { title: "Electricity, as it was", about: "Texas, hour by hour, spring 2022; each seed from another hour on", fields: { scale: ["Times $ per MWh", 0.1, 0.01, 2, 0.01], points: ["A place for each client, or none for one price", []] } },
  brent: { title: "Oil, as it was", about: "Brent, day by day, 1987 to 2019; each seed from another day on", fields: { scale: ["Times $ per barrel", 0.1, 0.01, 2, 0.01] } },
};

// In the order in which they are offered.
export const POLICIES = {
  headgate: "recommended: buys when prices are low, never above the budget or the buffers",
  below: "buys at prices below the median of those seen so far, or below another quantile",
  acdpp: "the paper’s: adaptive constraint, drift plus penalty", constant: "the same number every round",
  dpp: "drift plus penalty without the adaptive constraint", hybrid: "half of the clients constant, half static", oracle: "all new every round, whatever it costs",
  threshold: "buys below a fixed price",
};

export const DEFAULTS = {
  recipe: "", currency: "", buffers: [8, 9, 10, 11, 12], clients: 10, budget: 55, rounds: 100, kind: "uniform", process: priceDefaults("uniform"), policy: "headgate", K: null, seeds: 20, gamma: 0.5, phi: 0.5, quantile: 0.5, burst: false, kept: false,
};

export function priceDefaults(kind) {
  return Object.fromEntries(Object.entries(PRICES[kind].fields).map(([name, [, value]]) => [name, value]));
}

export function fromQuery(query) {
  const number = (key) => (query.has(key) && query.get(key) !== "" && Number.isFinite(Number(query.get(key))) ? Number(query.get(key)) : DEFAULTS[key]);
  const kind = query.get("prices") in PRICES ? query.get("prices") : DEFAULTS.kind;
  const process = priceDefaults(kind);
  for (const name of Object.keys(process)) if (query.has(`prices.${name}`)) process[name] = read(query.get(`prices.${name}`), process[name]);
  if (kind === "list") process.text = sessionStorage.getItem(LIST) || ""; // too long for an address
  return {
    ...DEFAULTS, kind, process,
    recipe: query.get("recipe") || "", currency: query.get("currency") || "",
    buffers: query.has("buffers") ? wholes(query.get("buffers")) || DEFAULTS.buffers : DEFAULTS.buffers,
    clients: number("clients"), budget: number("budget"), rounds: number("rounds"), seeds: number("seeds"), gamma: number("gamma"), phi: number("phi"), quantile: number("quantile"),
    K: query.has("K") ? number("K") : null,
    burst: query.get("burst") === "buffer", kept: query.get("limits") === "kept",
    policy: query.get("policy") in POLICIES ? query.get("policy") : DEFAULTS.policy,
  };
}

export function toQuery(plan) {
  const query = new URLSearchParams({ buffers: plan.buffers.join(","), clients: plan.clients, budget: plan.budget, rounds: plan.rounds, policy: plan.policy, prices: plan.kind });
  const { text, ...process } = plan.process;
  if (text !== undefined) sessionStorage.setItem(LIST, text);
  for (const [name, value] of Object.entries(process)) query.set(`prices.${name}`, typeof value === "object" ? JSON.stringify(value) : String(value));
  if (plan.currency) query.set("currency", plan.currency);
  if (plan.K !== null) query.set("K", plan.K);
  if (plan.recipe) query.set("recipe", plan.recipe);
  if (plan.burst) query.set("burst", "buffer");
  if (plan.kept) query.set("limits", "kept");
  for (const key of ["seeds", "gamma", "phi", "quantile"]) if (plan[key] !== DEFAULTS[key]) query.set(key, plan[key]);
  return query.toString().replaceAll("%2C", ",");
}

// The recipe of a plan. `settings` are the names of those that its policy has, `start` what it was started from.
export function toRequest(plan, settings, start) {
  const given = { K: plan.K, gamma: plan.gamma, phi: plan.phi, quantile: plan.quantile, burst: plan.burst ? "buffer" : null };
  if (plan.kept && canKeep(settings)) Object.assign(given, KEPT);
  const own = Object.entries(given).filter(([name, value]) => value !== null && settings.includes(name));
  return {
    system: { buffers: plan.buffers, clients: plan.clients, budget: plan.budget, currency: plan.currency },
    prices: pricesOf(plan),
    run: { rounds: plan.rounds, seeds: plan.seeds },
    policies: { [plan.policy]: Object.fromEntries(own) },
    bound: start?.bound || {},
    runs: start?.runs || [],
  };
}

function pricesOf({ kind, process }) {
  if (kind !== "list") return { kind, ...process };
  return { kind: "trace", text: process.text, column: process.column || null, at_end: process.repeat ? "repeat" : "stop" };
}

// Prices as a recipe has them, as the page holds them; null where it has no fields for them.
export function fromPrices({ kind, ...process }) {
  if (kind === "trace") return { kind: "list", process: { text: process.prices.join("\n"), column: "", repeat: process.at_end === "repeat" } };
  return kind in PRICES ? { kind, process: { ...priceDefaults(kind), ...process } } : null;
}

// The columns and the number of prices of a list, as far as its first two lines tell: a list of numbers has no header.
export function listIn(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const [header, first] = lines.slice(0, 2).map(cellsOf);
  if (!header || header.every(isNumber)) return { columns: [], numeric: [], prices: lines.length };
  return { columns: header, numeric: header.filter((_, at) => first && isNumber(first[at] ?? "")), prices: lines.length - 1 };
}

// The column of the prices: the one that was chosen, the one with their name, or the only one with numbers.
export function columnIn(text, chosen) {
  const { columns, numeric } = listIn(text);
  const known = [chosen, "price", "cost"].find((name) => columns.includes(name));
  return known ?? (numeric.length === 1 ? numeric[0] : "");
}

const cellsOf = (line) => line.split(/[,\t]/).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));

// Some policies can be told to stop at the buffers and at the money; headgate and its kin always do.
const KEPT = { capacity: "buffer", purse: true };
export const canKeep = (settings) => Object.keys(KEPT).every((name) => settings.includes(name));

// "8, 9 10" → [8, 9, 10]; null where it is no list of whole numbers.
export function wholes(text) {
  const parts = text.trim().split(/[\s,;]+/).filter(Boolean);
  return parts.length && parts.every((part) => /^\d+$/.test(part)) ? parts.map(Number) : null;
}

function read(text, like) {
  if (typeof like === "string") return text;
  if (typeof like === "number") return Number.isFinite(Number(text)) ? Number(text) : like;
  try {
    return JSON.parse(text);
  } catch {
    return like;
  }
}
