// Whose line it is, and buttons that hide and show: a click one of them, a double click shows it alone.

import { h } from "./dom.js";
import { swatchClass } from "./palette.js";

export const swatch = (look) => h("span", { class: swatchClass(look), "aria-hidden": "true" });

// `hidden` is a set of names that is changed; `changed` is called after that.
export function legend(names, looks, hidden, changed) {
  const buttons = names.map((name, i) => {
    const button = h("button", { type: "button", class: "chip", "aria-pressed": String(!hidden.has(name)) }, swatch(looks[i]), name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      show();
    });
    button.addEventListener("dblclick", () => {
      const alone = hidden.size === names.length - 1 && !hidden.has(name);
      hidden.clear();
      if (!alone) for (const other of names) if (other !== name) hidden.add(other);
      show();
    });
    return button;
  });
  function show() {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(!hidden.has(names[i]))));
    changed();
  }
  return h("div", { class: "legend", role: "group", "aria-label": "Policies shown in the figures" }, buttons);
}
