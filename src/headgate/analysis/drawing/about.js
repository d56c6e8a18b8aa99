// What was run: a few facts, then all settings.

import { h } from "./dom.js";
import { duration, moment, number, plural, whole } from "./format.js";

export function facts(run) {
  const { environment } = run;
  const told = [
    ["data", run.data], ["model", run.model],
    ["clients", `${whole(run.buffers.length)}, buffers ${range(run.buffers)}`],
    ["budget", `${number(run.budget)} a round`],
    ["seeds", whole(run.seeds.length)],
    ["target", run.target ? `${number(100 * run.target)} %` : null],
    ["executor", [environment.executor, environment.device, environment.dtype].filter(Boolean).join(", ")],
    ["started", moment(run.started)],
    ["took", Number.isFinite(run.elapsed) ? duration(run.elapsed) : null],
  ];
  return h("dl", { class: "facts" }, told.filter(([, text]) => text).map(([term, text]) => h("div", null, h("dt", null, term), h("dd", null, text))));
}

function range(buffers) {
  const [low, high] = [Math.min(...buffers), Math.max(...buffers)];
  return low === high ? `of ${number(low)}` : `${number(low)} to ${number(high)}`;
}

// `copy` is a button that copies the settings, or nothing.
export function settings(run, copy) {
  const rows = Object.entries(run.environment).map(([key, value]) => h("tr", null, h("th", { scope: "row" }, key), h("td", null, typeof value === "object" ? JSON.stringify(value) : String(value))));
  return [
    h("details", null, h("summary", null, `Settings, ${plural(run.toml.trim().split("\n").length, "line")} of TOML`), copy && h("p", { class: "above" }, copy), h("pre", { tabindex: "0" }, run.toml)),
    h("details", null, h("summary", null, "Environment"), h("div", { class: "scroll" }, h("table", { class: "plain" }, h("tbody", null, rows)))),
  ];
}
