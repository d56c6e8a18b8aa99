// The accounts that the token is for.

import { aborted, accountPath, get } from "../api.js";
import { h, put, refill } from "../../drawing/dom.js";
import { plural, whole } from "../../drawing/format.js";
import { failure, progress, skeleton } from "../marks.js";
import { amount } from "../words.js";

const PAGE = 50;

export function open({ main, signal, query }) {
  const count = h("p", { class: "soft count" });
  const place = h("div", null, skeleton(5, "rows"));
  put(main, h("div", { class: "page-head" }, h("h1", null, "Accounts"), count), place);
  load(query.get("after") || "");

  async function load(after) {
    try {
      const { accounts, next } = await get("/accounts", { limit: PAGE, after }, signal);
      const rows = await Promise.all(accounts.map(rowOf));
      count.textContent = accounts.length ? plural(accounts.length, "account") + (next ? " on this page" : "") : "";
      if (!accounts.length) return refill(place, empty());
      return refill(place, table(rows), next && h("p", null, h("a", { href: `/accounts?after=${next}` }, "Next page")));
    } catch (error) {
      if (aborted(error)) return null;
      return refill(place, failure(error, () => load(after)));
    }
  }

  // Accounts that are busy or damaged do not hide the others.
  async function rowOf(name) {
    try {
      const [detail, balance] = await Promise.all([get(accountPath(name), null, signal), get(accountPath(name, "/balance"), null, signal)]);
      return { name, detail, balance };
    } catch (error) {
      if (aborted(error)) throw error;
      return { name, wrong: error.message };
    }
  }
}

function table(rows) {
  const heads = ["Account", "Rounds", "Spent, of approved", "Under way", "Left"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accounts" }, h("table", { class: "accounts listed" },
    h("thead", null, h("tr", null, heads.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", null, rows.map(line))));
}

function line({ name, detail, balance, wrong }) {
  const head = h("th", { scope: "row", class: "cell-name" }, h("a", { href: `/accounts/${name}`, class: "name-link" }, name));
  if (wrong) return h("tr", null, head, h("td", { colspan: 4, class: "over" }, wrong));
  const unit = detail.system.currency;
  const horizon = (detail.ahead || detail.system).horizon;
  const [spent, approved] = [Number(balance.spent), Number(balance.approved)];
  const rounds = horizon ? `${whole(detail.settled)} / ${whole(horizon)}` : whole(detail.settled);
  return h("tr", null, head,
    h("td", { class: "numeral" }, rounds),
    h("td", null, h("span", { class: "numeral" }, `${amount(unit, spent)} of ${amount(unit, approved)}`), progress(Math.min(spent, approved), approved, `Spent by ${name}`)),
    h("td", { class: "numeral" }, amount(unit, Number(balance.reserved))),
    h("td", { class: Number(balance.left) < 0 ? "numeral over" : "numeral" }, amount(unit, Number(balance.left))));
}

function empty() {
  return h("div", { class: "empty" }, h("h2", null, "No accounts yet"), h("p", null, "Books with a token for all accounts begins one:"),
    h("pre", null, `Books("${location.origin}/accounts/clinic", system, policy)`));
}
