// Which page is shown. Links inside are followed without loading the page again; the address alone says what one sees.

import { remember } from "./address.js";
import { get } from "./api.js";
import { h, refill, say } from "../drawing/dom.js";
import { startTheme } from "../drawing/theme.js";
import { runTitle } from "./words.js";

const PAGES = [
  { at: /^\/$/, nav: "/", title: "Runs", load: () => import("./pages/runs.js") },
  { at: /^\/run\/([^/]+)$/, nav: "/", title: "Run", load: () => import("./pages/run.js") },
  { at: /^\/compare$/, nav: "/compare", title: "Compare", load: () => import("./pages/compare.js") },
  { at: /^\/plan$/, nav: "/plan", title: "Plan", load: () => import("./pages/plan.js") },
  { at: /^\/accounts$/, nav: "/accounts", title: "Accounts", load: () => import("./pages/accounts.js") },
  { at: /^\/accounts\/([^/]+)$/, nav: "/accounts", title: "Accounts", load: () => import("./pages/account.js") },
];

const main = document.getElementById("main");
let leaving = new AbortController();

async function show(arrived) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const page = PAGES.find(({ at }) => at.test(location.pathname));
  for (const link of document.querySelectorAll("nav a")) {
    if (page && link.getAttribute("href") === page.nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!page) return lost();
  const name = location.pathname.match(page.at)[1];
  title(name ? runTitle(decodeURIComponent(name)) : page.title);
  const { open } = await page.load();
  if (signal.aborted) return;
  main.replaceChildren();
  open({ main, signal, go, name: name && decodeURIComponent(name), query: new URLSearchParams(location.search) });
  if (!arrived) return;
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
  say(page.title);
}

function lost() {
  title("Not found");
  refill(main, h("h1", null, "There is no such page"), h("p", null, h("a", { href: "/" }, "All runs")));
}

function title(text) {
  document.title = `${text} · headgate`;
}

function go(address) {
  history.pushState(null, "", address);
  show(true);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  if (!PAGES.some(({ at }) => at.test(link.pathname))) return;
  event.preventDefault();
  if (link.hash) document.getElementById(link.hash.slice(1))?.focus(); // within the page: nothing is drawn again
  else go(link.href);
});
window.addEventListener("popstate", () => show(false));

// The link that was printed carries the token; once it is a cookie, it need not stand in the address.
if (new URLSearchParams(location.search).has("token")) remember({ token: null });
startTheme(document.getElementById("theme"));
offer();
show(false);

// Where accounts are served there is a way to them; a token for some of them leads nowhere else.
async function offer() {
  const { runs, accounts } = await get("/health").catch(() => ({ runs: true, accounts: false }));
  for (const link of document.querySelectorAll("nav a")) link.hidden = link.getAttribute("href") === "/accounts" ? !accounts : !runs;
  if (!runs && !location.pathname.startsWith("/accounts")) go("/accounts");
}
