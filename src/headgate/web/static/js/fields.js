// A slider and a number that say the same; the number may go further than the slider.

import { h } from "../drawing/dom.js";

const STEPS = 1000;
let made = 0;

export class Slider {
  // `scale` "log" for what spans powers of ten; `step` 1 for whole numbers.
  constructor({ label, unit, about, least, most, step = 0.1, scale = "linear", value, setting, changed }) {
    Object.assign(this, { least, most, step, scale, changed });
    const id = `field-${(made += 1)}`;
    this.range = h("input", { type: "range", id, min: 0, max: STEPS, step: 1, "aria-describedby": about && `${id}-about` });
    this.number = h("input", { type: "number", step: step < 1 ? "any" : step, inputmode: step < 1 ? "decimal" : "numeric", "aria-label": `${label}${unit ? `, ${unit}` : ""}` });
    this.node = h("div", { class: "field", "data-setting": setting, "data-label": label },
      h("label", { for: id }, label, " ", unit && h("span", { class: "unit" }, unit)), this.number, this.range,
      about && h("p", { class: "field-about", id: `${id}-about` }, about), h("p", { class: "field-wrong", role: "alert", hidden: true }));
    this.range.addEventListener("input", () => this.take(this.fromRange()));
    this.number.addEventListener("input", () => {
      const given = this.number.valueAsNumber;
      if (!Number.isFinite(given)) return;
      this.value = given;
      this.showRange();
      this.changed(given);
    });
    this.number.addEventListener("blur", () => this.set(this.value));
    this.set(value);
  }

  fromRange() {
    const share = Number(this.range.value) / STEPS;
    const value = this.scale === "log" ? this.least * (this.most / this.least) ** share : this.least + share * (this.most - this.least);
    return this.rounded(value);
  }

  // To a step that suits its size: 1,234 is not dragged to.
  rounded(value) {
    if (this.step >= 1) return Math.round(value / this.step) * this.step;
    const step = this.scale === "log" ? Math.max(this.step, 10 ** (Math.floor(Math.log10(value)) - 1)) : this.step;
    return Number((Math.round(value / step) * step).toPrecision(6));
  }

  take(value) {
    this.set(value);
    this.changed(value);
  }

  set(value) {
    this.value = value;
    this.number.value = value;
    this.showRange();
  }

  showRange() {
    const inside = Math.min(this.most, Math.max(this.least, this.value));
    const share = this.scale === "log" ? Math.log(inside / this.least) / Math.log(this.most / this.least) : (inside - this.least) / (this.most - this.least);
    this.range.value = Math.round(STEPS * share);
    this.range.setAttribute("aria-valuetext", String(this.value));
  }

  set disabled(disabled) {
    this.range.disabled = this.number.disabled = disabled;
  }
}

export function textField({ label, about, value, setting, parse, changed, short }) {
  const id = `field-${(made += 1)}`;
  const input = h("input", { type: "text", id, value, autocomplete: "off", spellcheck: "false", "aria-describedby": about && `${id}-about` });
  input.addEventListener("input", () => {
    const parsed = parse(input.value);
    input.setAttribute("aria-invalid", String(parsed === null));
    if (parsed !== null) changed(parsed);
  });
  return h("div", { class: short ? "field" : "field text", "data-setting": setting, "data-label": label }, h("label", { for: id }, label), input, about && h("p", { class: "field-about", id: `${id}-about` }, about), h("p", { class: "field-wrong", role: "alert", hidden: true }));
}

export function selectField({ label, about, options, value, setting, changed }) {
  const id = `field-${(made += 1)}`;
  const select = h("select", { id }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  select.addEventListener("change", () => changed(select.value));
  return h("div", { class: "field text", "data-setting": setting, "data-label": label }, h("label", { for: id }, label), select, about && h("p", { class: "field-about" }, about), h("p", { class: "field-wrong", role: "alert", hidden: true }));
}
