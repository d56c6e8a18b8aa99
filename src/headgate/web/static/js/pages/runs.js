// All runs of the folder: search, sort, choose some to compare.

import { get, aborted } from "../api.js";
import { remember, runAddress } from "../address.js";
import { h, put, refill, say } from "../../drawing/dom.js";
import { ago, moment, percent, plural, whole } from "../../drawing/format.js";
import { failure, progress, skeleton, spark, stateMark } from "../marks.js";
import { runTitle } from "../words.js";

const PAGE = 50;
const AGAIN = 2500; // ms, while something is running
const COLUMNS = [
  { key: "name", title: "Run", order: "asc" },
  { key: "state", title: "State", order: "asc" },
  { key: "progress", title: "Rounds", order: "desc" },
  { key: null, title: "Policies" },
  { key: "accuracy", title: "Best within limits", order: "desc" },
  { key: "spend", title: "Spend, of budget", order: "desc" },
  { key: "started", title: "Started", order: "desc" },
];

export function open({ main, signal, go, query }) {
  const view = { search: query.get("search") || "", sort: query.get("sort") || "started", order: query.get("order") || "desc", page: Math.max(1, Number(query.get("page")) || 1) };
  const chosen = new Set();
  const shown = new Map(); // name → { key, node }: a row that says the same stays as it is
  let asking = null;
  let timer = 0;

  const search = h("input", { type: "search", value: view.search, placeholder: "Search name, policy, state, data", "aria-label": "Search runs", autocomplete: "off", spellcheck: "false" });
  const count = h("p", { class: "soft count" });
  const body = h("tbody");
  const heads = COLUMNS.map(head);
  const table = h("table", { class: "runs" }, h("caption", { class: "unseen" }, "Runs"),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "unseen" }, "Choose")), heads.map((one) => one.node))), body);
  const place = h("div", { class: "runs-place" }, skeleton(8, "rows"));
  const pages = h("nav", { class: "pages", "aria-label": "Pages of runs", hidden: true });
  const bar = h("div", { class: "chosen-bar", hidden: true });
  put(main,
    h("div", { class: "page-head" }, h("h1", null, "Runs"), count),
    h("div", { class: "toolbar" }, search, sortChooser()),
    place, pages, bar);

  search.addEventListener("input", () => {
    view.page = 1;
    Object.assign(view, { search: search.value });
    clearTimeout(timer);
    timer = setTimeout(load, 150);
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) load(); }, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  load();

  function head(column) {
    const node = h("th", { scope: "col" });
    if (!column.key) return { column, node: put(node, column.title) };
    put(node, h("button", { type: "button", class: "sorter", onclick: () => sortBy(column.key, view.sort === column.key ? flipped(view.order) : column.order) }, column.title));
    return { column, node };
  }

  // On a phone there are no heads to click.
  function sortChooser() {
    const select = h("select", { "aria-label": "Sort by", class: "sort-select" });
    for (const { key, title, order } of COLUMNS.filter((column) => column.key)) {
      put(select, h("option", { value: `${key} ${order}`, selected: view.sort === key }, title));
    }
    select.addEventListener("change", () => sortBy(...select.value.split(" ")));
    return h("label", { class: "sort-label" }, h("span", null, "Sort by"), select);
  }

  function sortBy(key, order) {
    Object.assign(view, { sort: key, order, page: 1 });
    load();
  }

  async function load() {
    clearTimeout(timer);
    asking?.abort();
    asking = new AbortController();
    const offset = (view.page - 1) * PAGE;
    remember({ search: view.search, sort: view.sort === "started" ? null : view.sort, order: view.order === "desc" ? null : view.order, page: view.page > 1 ? view.page : null });
    try {
      const answer = await get("/runs", { search: view.search, sort: view.sort, order: view.order, limit: PAGE, offset }, AbortSignal.any([asking.signal, signal]));
      show(answer);
      if (!document.hidden && (answer.running ?? answer.rows.some((row) => row.state === "running"))) timer = setTimeout(load, AGAIN);
      else if (!document.hidden && !answer.total) timer = setTimeout(load, AGAIN);
    } catch (error) {
      if (aborted(error)) return;
      refill(place, failure(error, load));
      shown.clear();
      pages.hidden = true;
      timer = setTimeout(load, 2 * AGAIN);
    }
  }

  function show(answer) {
    const { rows, total, matching, unreadable = {} } = answer;
    if (view.page > 1 && !rows.length && matching) {
      view.page = Math.ceil(matching / PAGE);
      load();
      return;
    }
    count.textContent = total ? (matching === total ? plural(total, "run") : `${whole(matching)} of ${plural(total, "run")}`) : "";
    if (view.search) say(`${plural(matching, "run")} found`);
    for (const { column, node } of heads) {
      if (column.key) node.setAttribute("aria-sort", column.key !== view.sort ? "none" : view.order === "asc" ? "ascending" : "descending");
    }
    if (!rows.length) {
      shown.clear();
      refill(place, total ? nothingFound() : nothingYet(), damaged(unreadable));
    } else {
      if (!table.isConnected) refill(place, h("div", { class: "scroll-x" }, table), h("div", { class: "damaged" }));
      keep(rows);
      refill(place.querySelector(".damaged"), damaged(unreadable));
    }
    paging(matching);
    choose();
  }

  function keep(rows) {
    const nodes = rows.map((row) => {
      const key = JSON.stringify(row);
      const old = shown.get(row.name);
      if (old?.key === key) return old.node;
      const node = line(row);
      if (old) {
        const focused = old.node.contains(document.activeElement) && document.activeElement.className;
        old.node.replaceWith(node);
        if (focused) node.getElementsByClassName(focused)[0]?.focus();
      }
      shown.set(row.name, { key, node });
      return node;
    });
    const names = new Set(rows.map((row) => row.name));
    for (const name of shown.keys()) if (!names.has(name)) shown.delete(name);
    if (nodes.length !== body.children.length || nodes.some((node, i) => body.children[i] !== node)) body.replaceChildren(...nodes);
  }

  function line(row) {
    const box = h("input", { type: "checkbox", class: "pick", checked: chosen.has(row.name), "aria-label": `Choose ${runTitle(row.name)}` });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(row.name);
      else chosen.delete(row.name);
      choose();
    });
    const shares = Object.entries(row.spend_shares).map(([policy, share]) => `${policy} ${percent(share, 0)}`).join(", ");
    return h("tr", { "data-name": row.name },
      h("td", { class: "cell-pick" }, h("label", { class: "pick-label" }, box)),
      h("th", { scope: "row", class: "cell-name" }, h("a", { href: runAddress(row.name), class: "name-link" }, runTitle(row.name)),
        h("span", { class: "soft small-print" }, [row.data, row.model].filter(Boolean).join(", "), row.problem && h("span", { class: "over" }, ` ${row.problem}`))),
      h("td", { class: "cell-state" }, stateMark(row.state), row.lost > 0 && row.state !== "diverged" && h("span", { class: "small-print over" }, `${row.lost} of ${row.runs} lost`)),
      h("td", { class: "cell-rounds" }, h("span", { class: "numeral" }, `${whole(row.round)} / ${whole(row.rounds)}`), row.state !== "finished" && progress(row.round, row.rounds, `Rounds of ${runTitle(row.name)}`)),
      h("td", { class: "cell-policies" }, h("span", { class: "policies" }, row.policies.join(", ")), h("span", { class: "soft small-print" }, plural(row.seeds, "seed"))),
      h("td", { class: "cell-accuracy", "data-label": "Best" }, spark(row.spark, `Best accuracy so far, ${row.spark.length} points`), h("span", { class: "numeral" }, percent(row.best_accuracy)), h("span", { class: "soft small-print" }, row.best_policy || "")),
      h("td", { class: "cell-spend", title: shares, "data-label": "Spend" }, h("span", { class: row.broken ? "numeral over" : "numeral" }, percent(row.spend_share, 0)), spender(row)),
      h("td", { class: "cell-started", title: moment(row.started) }, h("time", { datetime: new Date(row.started * 1000).toISOString() }, ago(row.started))));
  }

  function paging(matching) {
    const last = Math.max(1, Math.ceil(matching / PAGE));
    pages.hidden = last === 1;
    const turn = (to, text, label) => h("button", { type: "button", "aria-label": label, disabled: to < 1 || to > last, onclick: () => { view.page = to; load(); window.scrollTo(0, 0); } }, text);
    refill(pages, turn(view.page - 1, "← Before", "Page before"), h("span", { class: "soft" }, `Page ${view.page} of ${last}`), turn(view.page + 1, "Next →", "Next page"));
  }

  function choose() {
    bar.hidden = !chosen.size;
    const names = [...chosen];
    refill(bar, h("span", null, `${plural(names.length, "run")} chosen`),
      h("button", { type: "button", class: "strong", disabled: names.length > 20, onclick: () => go(`/compare?${names.map((name) => `runs=${encodeURIComponent(name)}`).join("&")}`) }, names.length === 1 ? "Compare its policies" : `Compare ${names.length} runs`),
      h("button", { type: "button", class: "quiet", onclick: clear }, "Clear"));
  }

  function clear() {
    chosen.clear();
    for (const box of body.querySelectorAll(".pick")) box.checked = false;
    choose();
  }

  function nothingFound() {
    return h("div", { class: "empty" }, h("h2", null, "No run matches"), h("p", null, `Nothing is called “${view.search}”.`),
      h("p", null, h("button", { type: "button", onclick: () => { search.value = view.search = ""; load(); search.focus(); } }, "Show all runs")));
  }
}

// It is the best policy's spend; where nobody kept the limits, whose it is and what it broke. How many others went over budget.
function spender(row) {
  const others = row.over_budget.length;
  return [
    row.broken && h("span", { class: "over small-print" }, `${row.spend_policy} broke ${row.broken}`),
    others > 0 && h("span", { class: "soft small-print" }, `${plural(others, "other")} over budget`),
  ];
}

const flipped = (order) => (order === "asc" ? "desc" : "asc");

function nothingYet() {
  return h("div", { class: "empty" },
    h("h2", null, "No runs yet"),
    h("p", null, "Start one, and it appears here while it runs:"),
    h("pre", { tabindex: "0" }, "headgate run digits"),
    h("p", null, "Or look first: ", h("a", { href: "/plan" }, "plan a run"), "."));
}

function damaged(unreadable) {
  const list = Object.entries(unreadable);
  if (!list.length) return null;
  return h("details", null, h("summary", null, `${plural(list.length, "folder")} cannot be read`), h("ul", null, list.map(([name, problem]) => h("li", null, h("strong", null, name), `: ${problem}`))));
}
