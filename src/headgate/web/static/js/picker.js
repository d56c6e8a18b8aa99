// Which runs: those chosen as chips, and a field that finds more.

import { aborted, get } from "./api.js";
import { h, refill } from "../drawing/dom.js";
import { ago } from "../drawing/format.js";
import { stateMark } from "./marks.js";
import { runTitle } from "./words.js";

const MOST = 20;

export class RunPicker {
  constructor(names, changed, signal) {
    Object.assign(this, { names: [...names], changed, signal });
    this.chips = h("div", { class: "chips" });
    this.field = h("input", { type: "search", placeholder: "Add a run…", "aria-label": "Add a run", autocomplete: "off", spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "found-runs" });
    this.found = h("ul", { id: "found-runs", class: "found", role: "listbox", "aria-label": "Runs found", hidden: true });
    this.node = h("div", { class: "picker" }, this.chips, h("div", { class: "picker-field" }, this.field, this.found));
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("focus", () => this.search());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("focusout", (event) => { if (!this.node.contains(event.relatedTarget)) this.close(); });
    this.show();
  }

  show() {
    refill(this.chips, this.names.map((name) => h("span", { class: "chip chosen" }, runTitle(name), h("button", { type: "button", class: "quiet small", "aria-label": `Remove ${runTitle(name)}`, onclick: () => this.set(this.names.filter((one) => one !== name)) }, "×"))));
    this.field.disabled = this.names.length >= MOST;
  }

  set(names) {
    this.names = names;
    this.show();
    this.changed(names);
  }

  async search() {
    this.asking?.abort(); // an older answer may come after a newer one
    this.asking = new AbortController();
    try {
      const { rows } = await get("/runs", { search: this.field.value, limit: 30 }, AbortSignal.any([this.asking.signal, this.signal]));
      const left = rows.filter((row) => !this.names.includes(row.name)).slice(0, 8);
      this.at = -1;
      refill(this.found, left.map((row, i) => h("li", { id: `found-${i}`, role: "option", "aria-selected": "false", tabindex: "-1", "data-name": row.name, onmousedown: (event) => { event.preventDefault(); this.take(row.name); } }, h("span", { class: "found-name" }, runTitle(row.name)), stateMark(row.state), h("span", { class: "soft" }, ago(row.started)))),
        !left.length && h("li", { class: "soft", role: "option", "aria-disabled": "true", "aria-selected": "false" }, rows.length ? "All of these are chosen" : "No run found"));
      if (document.activeElement === this.field) this.open();
    } catch (error) {
      if (!aborted(error)) this.close();
    }
  }

  take(name) {
    this.field.value = "";
    this.set([...this.names, name]);
    this.search();
  }

  key(event) {
    const options = [...this.found.querySelectorAll("[data-name]")];
    if (event.key === "Escape") return this.close();
    if (event.key === "Enter" && options.length) {
      event.preventDefault();
      return this.take(options[Math.max(0, this.at)].dataset.name);
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return undefined;
    event.preventDefault();
    this.open();
    this.at = Math.min(options.length - 1, Math.max(0, this.at + (event.key === "ArrowDown" ? 1 : -1)));
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === this.at)));
    if (options[this.at]) this.field.setAttribute("aria-activedescendant", options[this.at].id);
    return undefined;
  }

  open() {
    this.found.hidden = false;
    this.field.setAttribute("aria-expanded", "true");
  }

  close() {
    this.found.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
  }
}
