// Numbers, money and times as people read them.

const LOCALE = "en-GB";
export const DASH = "–";

const formats = new Map();
// Rounded as Python does, so that page and terminal agree: the exact value of the float, halves to even.
function format(value, options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(LOCALE, { ...options, roundingMode: "halfEven" }));
  return formats.get(key).format(value.toPrecision(30)).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−");
}

const none = (value) => value === null || value === undefined || Number.isNaN(value);

export function number(value) {
  if (none(value)) return DASH;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Math.abs(value) >= 1000) return format(value, { maximumFractionDigits: 0 });
  return format(value, { maximumSignificantDigits: 4 });
}

export const whole = (value) => (none(value) ? DASH : format(value, { maximumFractionDigits: 0 }));
export const fixed = (value, digits) => (none(value) ? DASH : format(value, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
export const percent = (share, digits = 1) => (none(share) ? DASH : `${fixed(100 * share, digits)}\u00a0%`);

export function withInterval(mean, half, text) {
  return none(half) ? text(mean) : `${text(mean)} ± ${text(half)}`;
}

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

const STEPS = [[60, "second"], [3600, "minute", 60], [86400, "hour", 3600], [30 * 86400, "day", 86400]];
const relative = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });

export function ago(seconds, now = Date.now() / 1000) {
  const past = Math.max(0, now - seconds);
  if (past < 45) return "just now";
  for (const [limit, unit, size = 1] of STEPS) if (past < limit) return relative.format(-Math.round(past / size), unit);
  return day(seconds);
}

export const day = (seconds) => new Date(seconds * 1000).toLocaleDateString(LOCALE, { day: "numeric", month: "short", year: "numeric" });
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString(LOCALE, { dateStyle: "medium", timeStyle: "medium" });

export function duration(seconds) {
  if (none(seconds)) return DASH;
  const all = Math.floor(seconds);
  if (all >= 3600) return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
  return all >= 60 ? `${Math.floor(all / 60)} min ${all % 60} s` : `${seconds.toFixed(1)} s`;
}
