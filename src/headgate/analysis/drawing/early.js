// Before the first paint: the theme that #dark or #light in the address asks for, else what was chosen here last, else the
// system's. Not a module, so that nothing flashes.
"use strict";
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = location.hash.slice(1);
  try {
    if (chosen !== "dark" && chosen !== "light") chosen = localStorage.getItem("headgate-theme");
  } catch { /* storage is switched off: the system decides */ }
  document.documentElement.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
})();
