// Small signs that stand in several pages: a run's state by shape and colour, sparks, swatches, notes, empty places.

import { h, s, say } from "../drawing/dom.js";

const SHAPES = {
  running: () => s("path", { d: "M3 2 L10.500 6 L3 10 Z" }),
  finished: () => s("circle", { cx: 6, cy: 6, r: 4.3 }),
  interrupted: () => s("path", { d: "M2.500 2h2.600v8H2.500zM6.900 2h2.600v8H6.900z" }),
  diverged: () => s("path", { d: "M6 1 L11.300 10.500 H0.700 Z" }),
};

export function stateMark(state) {
  const shape = SHAPES[state];
  return h("span", { class: `state ${state}` }, s("svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" }, shape && shape()), state);
}

export function spark(values, label) {
  const [width, height] = [96, 26];
  const box = s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return box;
  const low = Math.min(...known);
  const high = Math.max(...known, low + 1e-6);
  const x = (i) => 2 + (i * (width - 6)) / (known.length - 1);
  const y = (value) => height - 4 - ((value - low) / (high - low)) * (height - 8);
  box.append(s("path", { d: known.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("") }));
  box.append(s("circle", { cx: x(known.length - 1), cy: y(known.at(-1)), r: 2.2 }));
  return box;
}

export function progress(done, all, label) {
  const bar = h("span", { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": all, "aria-valuenow": done, "aria-label": label }, h("span"));
  bar.firstChild.style.width = `${all ? (100 * done) / all : 0}%`;
  return bar;
}

export const note = (text, kind = "") => h("p", { class: `note ${kind}` }, text);

export function failure(error, again) {
  return h("div", { class: "empty", role: "alert" }, h("h2", null, error.status === 404 ? "Not here" : "That did not work"), h("p", null, error.message),
    h("p", null, again && h("button", { type: "button", onclick: again }, "Try again"), " ", h("a", { href: "/" }, "All runs")));
}

export const skeleton = (lines, kind = "") => h("div", { class: `skeleton ${kind}`, "aria-hidden": "true" }, Array.from({ length: lines }, () => h("span")));

export function copyButton(text, label) {
  const button = h("button", { type: "button" }, label);
  let back = 0;
  button.addEventListener("click", async () => {
    const done = await copied(text());
    button.textContent = done ? "Copied" : "Select and copy by hand";
    say(done ? `${label}: copied` : "It could not be copied");
    clearTimeout(back);
    back = setTimeout(() => { button.textContent = label; }, 1600);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not over plain http from another machine: the old way
    const area = h("textarea", { value: text, class: "unseen", "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
