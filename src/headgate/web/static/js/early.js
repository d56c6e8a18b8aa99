// Before the first paint: the theme that was chosen here last, else the system's. Not a module, so that nothing flashes.
"use strict";
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("headgate-theme");
  } catch { /* storage is switched off: the system decides */ }
  document.documentElement.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
})();
