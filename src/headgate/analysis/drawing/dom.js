// Elements without markup in strings: text stays text, whatever a run is called.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, ...children);
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function put(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export function refill(node, ...children) {
  node.replaceChildren();
  return put(node, ...children);
}

// n_m, B_m, N_eff: what follows an underscore stands lower.
export function indexed(text) {
  return text.split(/(_[A-Za-z]+)/).map((part) => (part.startsWith("_") ? h("sub", null, part.slice(1)) : part));
}

let saying = 0;

// One thing at a time, and not more often than somebody can listen.
export function say(text) {
  const node = document.getElementById("said");
  clearTimeout(saying);
  saying = setTimeout(() => {
    if (node.textContent !== text) node.textContent = text;
  }, 400);
}
