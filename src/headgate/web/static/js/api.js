// What the server says; what it refuses comes as one line to show.

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answer(request) {
  let response;
  try {
    response = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is headgate serve still running?", 0);
  }
  const text = await response.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch { /* not JSON, so not from the API */ }
  if (!response.ok) throw new Refused(body?.detail || `The server answered ${response.status}.`, response.status);
  if (body === null) throw new Refused("The server answered something that is not JSON.", response.status);
  return body;
}

function address(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `/api${path}${text ? `?${text}` : ""}`;
}

export const runPath = (name, rest = "") => `/runs/${encodeURIComponent(name)}${rest}`;
export const get = (path, query, signal) => answer(fetch(address(path, query), { signal, headers: { accept: "application/json" } }));
export const post = (path, body, signal) => answer(fetch(address(path), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal }));
// Done once for its key: a click that is repeated, or an answer that is lost, counts once.
export const write = (path, body, key, signal) => answer(fetch(address(path), { method: "POST", headers: { "content-type": "application/json", "idempotency-key": key }, body: JSON.stringify(body), signal }));
export const accountPath = (name, rest = "") => `/accounts/${encodeURIComponent(name)}${rest}`;
export const aborted = (error) => error.name === "AbortError";
