// One account: its money over time, what is under way, the statement, and who changed what and why.

import { aborted, accountPath, get, write } from "../api.js";
import { asCsv, Figure } from "../../drawing/figure.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { number, whole } from "../../drawing/format.js";
import { lineFigure } from "../../drawing/lines.js";
import { labelOf, tableOf } from "../../drawing/numbers.js";
import { failure, note, skeleton } from "../marks.js";
import { tile } from "../plan_answer.js";
import { amount } from "../words.js";

const PAGE = 20;
const AGAIN = 5000; // ms between two looks
const LINES = [["spent", "spent", { colour: 0, dash: 0 }], ["spent and reserved", "most", { colour: 1, dash: 1 }]];

export async function open({ main, signal, name }) {
  const seen = { entry: null, history: null, unit: "" };
  let detail = null;
  put(main, h("p", { class: "eyebrow" }, h("a", { href: "/accounts" }, "Accounts"), " / "), h("h1", null, name), skeleton(3, "tiles"));
  try {
    detail = await get(accountPath(name), null, signal);
  } catch (error) {
    if (!aborted(error)) refill(main, h("h1", null, name), failure(error, () => location.reload()));
    return;
  }
  const status = h("p", { class: "status-line" });
  const tiles = h("div", { class: "tiles" }, skeleton(4, "tiles"));
  const under = h("div");
  const lines = h("div");
  const changes = h("div");
  const figure = new Figure({ title: "Money spent and reserved", wide: true, signal, about: "Dashed: with what is under way, at its price. An order counts in the round in which it was written.", content, csv: () => asCsv(rows()) });
  const link = (kind) => h("a", { href: `/api${accountPath(name, `/statement/${kind}`)}`, download: true }, kind.toUpperCase());
  refill(main, h("p", { class: "eyebrow" }, h("a", { href: "/accounts" }, "Accounts"), " / "), h("h1", null, name), status, tiles, figure.node,
    h("h2", null, "Under way"), under,
    h("h2", null, "Statement"), h("p", { class: "below" }, "As a file: ", link("csv"), ", ", link("parquet")), lines,
    h("h2", null, "Amendments and invoices"), changes, detail.role === "amend" && forms());
  const sections = { under: pages(under, "/orders", "orders", underWay), lines: pages(lines, "/statement", "lines", ordersTable) };
  await look();
  const timer = setInterval(() => { if (!document.hidden) look(); }, AGAIN);
  signal.addEventListener("abort", () => clearInterval(timer));

  // Everything is read again after something was written, here or elsewhere.
  async function look() {
    try {
      detail = await get(accountPath(name), null, signal);
      if (detail.entry === seen.entry) return;
      const [balance, history, made] = await Promise.all(["/balance", "/history", "/amendments"].map((rest) => get(accountPath(name, rest), null, signal)));
      Object.assign(seen, { entry: detail.entry, history, balance, unit: detail.system.currency });
      showHead(balance);
      figure.node.hidden = !history.rounds.length;
      figure.update();
      refill(changes, amendmentsTable(made.amendments));
      await Promise.all(Object.values(sections).map((section) => section.load()));
    } catch (error) {
      if (!aborted(error)) refill(status, note(error.message, "warn"));
    }
  }

  function showHead(balance) {
    const { unit } = seen;
    const horizon = (detail.ahead || detail.system).horizon;
    const money = (text) => amount(unit, Number(text));
    refill(status, h("span", { class: "numeral" }, `round ${whole(detail.settled)}${horizon ? ` of ${whole(horizon)}` : ""}`), h("span", null, detail.open ? `round ${whole(detail.open)} is open` : "no round is open"), detail.why && h("span", { class: "soft" }, detail.why));
    const reserved = `${money(balance.reserved)} reserved for what is under way`;
    refill(tiles, [
      { title: "Left", value: money(balance.left), beside: reserved, over: Number(balance.left) < 0 },
      { title: "Spent", value: money(balance.spent), beside: `of ${money(balance.approved)} approved` },
      { title: "Clients", value: whole(detail.clients.length), beside: detail.quarantined.length ? `${detail.quarantined.length} in quarantine` : "none in quarantine" },
      { title: "Policy", value: detail.policy.kind || "own", beside: `entry ${whole(detail.entry)} of the ledger` },
    ].map(tile));
  }

  function panes() {
    const { rounds, spent, reserved } = seen.history;
    const values = { spent, most: spent.map((value, i) => value + reserved[i]) };
    const approved = Number(seen.balance.approved);
    return [{ y: "Money", digits: ",.4~g", text: number, from: "tozero", lines: LINES.map(([own, key, look]) => ({ name: own, look, x: rounds, t: rounds, mean: values[key] })), levels: [{ value: approved, text: `approved ${amount(seen.unit, approved)}` }] }];
  }

  function content() {
    if (!seen.history?.rounds.length) return null;
    return { ...lineFigure({ x: "Round", panes: panes() }), label: labelOf(panes()), table: tableOf(panes()) };
  }

  function rows() {
    const { rounds, ...own } = seen.history;
    return { columns: ["round", ...Object.keys(own)], rows: rounds.map((t, i) => [t, ...Object.values(own).map((each) => each[i])]) };
  }

  // A list that comes in pages, the first again when something happens.
  function pages(place, path, key, drawn) {
    let shown = [];
    const load = async (after = "") => {
      const page = await get(accountPath(name, path), { limit: PAGE, after }, signal);
      shown = after ? [...shown, ...page[key]] : page[key];
      const more = page.next && h("p", null, h("button", { type: "button", onclick: () => load(page.next) }, "More"));
      refill(place, shown.length ? drawn(shown) : h("p", { class: "soft" }, "Nothing."), more);
    };
    return { load };
  }

  function forms() {
    const amend = form("Amend", [
      field("money", "Money approved in addition", { type: "number", step: "any" }),
      field("horizon", "Last round", { type: "number", min: 1, step: 1 }),
      field("why", "Reason", { type: "text", required: true, maxlength: 200 }),
    ], "/amendments", ({ money, horizon, why }) => ({ why, ...(money && { money: Number(money) }), ...(horizon && { horizon: Number(horizon) }) }));
    const adjust = form("Invoice or refund", [
      field("round", "Round of the order", { type: "number", min: 1, step: 1, required: true }),
      clientField(),
      field("amount", "Invoice less what was charged; below 0: a refund", { type: "number", step: "any", required: true }),
      field("why", "Reason", { type: "text", required: true, maxlength: 200 }),
    ], "/adjustments", ({ round, client, amount: own, why }) => ({ round: Number(round), client: detail.clients[client], amount: Number(own), why }));
    return h("div", { class: "grid account-forms" }, amend, adjust);
  }

  function clientField() {
    return h("label", { class: "account-field" }, h("span", null, "Client"), h("select", { name: "client" }, detail.clients.map((client, i) => h("option", { value: i }, client))));
  }

  function form(title, fields, path, bodyOf) {
    let key = newKey();
    const said = h("p", { role: "status" });
    const button = h("button", { type: "submit", class: "strong" }, title);
    const node = h("form", { class: "account-form", "aria-label": title }, h("h3", null, title), fields, button, said);
    node.addEventListener("input", () => { key = newKey(); });
    node.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        await write(accountPath(name, path), bodyOf(Object.fromEntries(new FormData(node))), key, signal);
        node.reset();
        refill(said, note(`${title}: done.`));
        say(`${title}: done`);
        await look();
      } catch (error) {
        if (!aborted(error)) refill(said, note(error.message, "warn"));
      } finally {
        button.disabled = false;
      }
    });
    return node;
  }
}

// A key of its own for each thing that is asked for; over plain http there is no randomUUID.
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const field = (name, label, attributes) => h("label", { class: "account-field" }, h("span", null, label), h("input", { name, ...attributes }));

function grid(caption, heads, body) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "listed" },
    h("thead", null, h("tr", null, heads.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", null, body.map((cells) => h("tr", null, cells.map((cell) => h("td", null, cell)))))));
}

const underWay = (orders) => grid("Orders under way", ["Round", "Client", "Price", "Asked", "Delivered", "Under way", "Expires"],
  orders.map((each) => [whole(each.round), String(each.client), number(Number(each.price)), whole(each.asked), whole(each.delivered), whole(each.under_way), each.expires === null ? "never" : String(each.expires)]));

const ordersTable = (lines) => grid("Statement", ["Round", "Client", "Time", "Price", "Asked", "Delivered", "Adjusted", "Paid"],
  lines.map((each) => [whole(each.round), String(each.client), each.time.slice(0, 16).replace("T", " "), number(Number(each.price)), whole(each.asked), whole(each.delivered), each.adjusted, each.paid]));

function amendmentsTable(made) {
  if (!made.length) return h("p", { class: "soft" }, "None.");
  const what = ({ change, order }) => Object.entries(change).map(([key, value]) => `${key} ${value}`).join(", ") + (order ? ` of round ${order[0]}, client ${order[1]}` : "");
  return grid("Amendments and invoices", ["After round", "Made", "By", "What", "Why"], made.toReversed().map((each) => [whole(each.round), each.made.slice(0, 16).replace("T", " "), each.by, what(each), each.why]));
}
