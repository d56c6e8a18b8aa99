// The view as it stands, in the address: a link that is copied shows the same.

export function remember(changes) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(key);
    else query.set(key, String(value));
  }
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%7E", "~");
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

export const list = (text) => (text ? text.split(",").filter(Boolean) : []);
export const runAddress = (name) => `/run/${encodeURIComponent(name)}`;
