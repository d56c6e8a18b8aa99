// Dark or light: the system's, until the reader chooses. Drawers are notified of a change.

const KEY = "headgate-theme";
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

export const dark = () => root.dataset.theme === "dark";

export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function show(theme, button) {
  root.dataset.theme = theme;
  button.textContent = dark() ? "Light" : "Dark";
  button.setAttribute("aria-label", dark() ? "Change to light colours" : "Change to dark colours");
  for (const listener of listeners) listener();
}

export function startTheme(button) {
  button.hidden = false;
  show(root.dataset.theme, button);
  button.addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch { /* it lasts as long as the page then */ }
    show(next, button);
  });
  system.addEventListener("change", () => {
    if (!chosen()) show(system.matches ? "dark" : "light", button);
  });
}
