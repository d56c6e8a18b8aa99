// What each policy came to, in a table: the words and numbers of the closing table and of the report.

import { h, indexed, refill } from "./dom.js";
import { swatch } from "./legend.js";

const FIRST = ["Best", "Last", "Daily", "Spend a round", "Limits", "Over budget", "Paid in all", "Paid a sample"]; // the others on demand

export class SummaryTable {
  // `names` of the policies, `table` of columns and rows.
  constructor(names, table, looks) {
    Object.assign(this, { names, looks });
    this.head = h("tr");
    this.body = h("tbody");
    this.meanings = h("dl", { class: "meanings" });
    const results = h("table", { class: "summary" }, h("thead", null, this.head), this.body);
    this.every = h("button", { type: "button", class: "small", "aria-pressed": "false" }, "All columns");
    this.every.addEventListener("click", () => this.every.setAttribute("aria-pressed", String(results.classList.toggle("whole"))));
    this.node = h("div", null,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results of each policy" }, results), h("p", { class: "below" }, this.every),
      h("details", { class: "meaning" }, h("summary", null, "What the columns mean"), this.meanings));
    this.update(table);
  }

  update({ columns, rows }) {
    const rare = columns.map(({ title }) => (FIRST.includes(title) ? "" : "rare"));
    const cell = ({ text, broken }, i) => h("td", { class: `${rare[i]} ${broken ? "over" : ""}` }, text);
    refill(this.head, h("th", { scope: "col" }, "Policy"), columns.map(({ title, meaning }, i) => h("th", { scope: "col", title: meaning, class: rare[i] }, indexed(title))));
    refill(this.body, rows.map((cells, i) => h("tr", null, h("th", { scope: "row" }, h("span", { class: "name" }, swatch(this.looks[i]), this.names[i])), cells.map(cell))));
    refill(this.meanings, columns.map(({ title, meaning }) => h("div", null, h("dt", null, indexed(title)), h("dd", null, meaning))));
  }
}
