// A figure with its caption: drawn when it comes into view, saved as SVG, PNG or CSV, its numbers as a table one click away.

import { h, indexed, refill } from "./dom.js";
import { style } from "./palette.js";
import { plotly } from "./plotly.js";
import { onTheme } from "./theme.js";

const CONFIG = { responsive: true, displayModeBar: false, doubleClick: "reset" };
const ROWS = 60; // of a table; all are in the CSV

export class Figure {
  // `content` gives { traces, layout, label, table: { columns, rows }, legend } as things stand; `csv` a text.
  constructor({ title, about, content, csv, wide, tall, signal, tools }) {
    Object.assign(this, { title, content, csv });
    this.plot = h("div", { class: "plot waiting", role: "img", "aria-label": title });
    if (tall) this.plot.classList.add("tall");
    this.table = h("div", { class: "scroll numbers", tabindex: "0", role: "region", "aria-label": `${title}: numbers`, hidden: true });
    this.node = h(
      "figure",
      { class: wide ? "wide" : null },
      h("figcaption", null, h("span", { class: "figure-title" }, indexed(title)), h("span", { class: "figure-tools" }, tools, this.numbersButton(), this.saveMenu())),
      this.plot,
      about && h("p", { class: "below" }, indexed(about)),
      this.table,
    );
    this.seen = false;
    this.stale = true;
    const watcher = new IntersectionObserver((entries) => {
      this.seen = entries.at(-1).isIntersecting;
      if (this.seen && this.stale) this.draw();
    }, { rootMargin: "300px" });
    watcher.observe(this.plot);
    const forget = onTheme(() => this.update());
    signal.addEventListener("abort", () => {
      watcher.disconnect();
      forget();
      if (window.Plotly && this.drawn) window.Plotly.purge(this.plot);
    });
  }

  update() {
    this.stale = true;
    if (this.seen) this.draw();
  }

  async draw() {
    this.stale = false;
    const content = this.content();
    if (!content) return;
    try {
      const Plotly = await plotly();
      if (!this.plot.isConnected) return;
      this.plot.style.height = content.layout.height ? `${content.layout.height}px` : "";
      this.plot.classList.remove("waiting");
      this.drawn = true;
      await Plotly.react(this.plot, content.traces, content.layout, CONFIG);
      this.plot.setAttribute("aria-label", `${this.title}. ${content.label}`);
      this.plot.dataset.points = String(content.traces.reduce((sum, trace) => sum + (trace.x?.length || 0), 0));
      if (!this.table.hidden) this.fillTable(content.table);
    } catch (error) {
      this.failed(error.message);
    }
  }

  failed(message) {
    this.plot.classList.remove("waiting");
    this.plot.replaceChildren(h("p", { class: "note warn" }, message));
  }

  numbersButton() {
    const button = h("button", { type: "button", class: "quiet small", "aria-expanded": "false", "aria-label": `Numbers of ${this.title}` }, "Numbers");
    button.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      button.setAttribute("aria-expanded", String(!this.table.hidden));
      const content = this.table.hidden ? null : this.content();
      if (content) this.fillTable(content.table);
    });
    return button;
  }

  fillTable({ columns, rows }) {
    const step = Math.max(1, Math.ceil(rows.length / ROWS));
    const shown = rows.filter((_, i) => i % step === 0 || i === rows.length - 1);
    refill(
      this.table,
      h("table", null,
        h("thead", null, h("tr", null, columns.map((name) => h("th", { scope: "col" }, indexed(name))))),
        h("tbody", null, shown.map((row) => h("tr", null, row.map((cell, i) => h(i ? "td" : "th", i ? null : { scope: "row" }, cell)))))),
      step > 1 && h("p", { class: "below" }, `Every ${step}th row; all of them are in the CSV.`),
    );
  }

  saveMenu() {
    const menu = h("details", { class: "menu" });
    const item = (text, act) => h("button", { type: "button", class: "quiet small", onclick: () => { menu.open = false; act(); } }, text);
    const items = [item("SVG", () => this.saveImage("svg")), item("PNG", () => this.saveImage("png")), this.csv && item("CSV", () => this.saveTable())];
    menu.append(h("summary", { "aria-label": `Save ${this.title}` }, "Save"), h("div", { class: "menu-items" }, items));
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(event.relatedTarget)) setTimeout(() => { if (!menu.contains(document.activeElement)) menu.open = false; });
    });
    return menu;
  }

  fileName(ending) {
    return `${this.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.${ending}`;
  }

  // Outside the page a figure needs its title and its legend.
  async saveImage(format) {
    const Plotly = await plotly();
    const { traces, layout } = this.content();
    const alone = {
      ...layout,
      width: undefined,
      title: { text: this.title, x: 0.02, font: { size: 15 } },
      showlegend: traces.length > 1,
      legend: { orientation: "h", y: -0.22 },
      paper_bgcolor: style("--page"),
      margin: { ...layout.margin, t: 48, b: 100 },
    };
    const url = await Plotly.toImage({ data: traces, layout: alone }, { format, width: 900, height: 560, scale: format === "png" ? 2 : 1 });
    save(url, this.fileName(format));
  }

  saveTable() {
    const url = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    save(url, this.fileName("csv"));
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}

function save(url, name) {
  const anchor = h("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

// No text that a spreadsheet takes for a formula.
export function asCsv({ columns, rows }) {
  const plain = (value) => (typeof value === "string" && /^[=+@\-\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : String(value ?? ""));
  const cell = (value) => (/[",\n]/.test(plain(value)) ? `"${plain(value).replaceAll('"', '""')}"` : plain(value));
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
