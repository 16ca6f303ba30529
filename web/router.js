// The address of the page: its path and filters are the state that can be shared, and the only one.

import { signal } from "./vendor/preact.js";

/** @typedef {{ path: string, query: Record<string, string> }} Place */

/** @returns {Place} */
function read() {
  const query = Object.fromEntries(new URLSearchParams(location.search));
  return { path: location.pathname.replace(/\/+$/, "") || "/app", query };
}

export const place = signal(read());

/** What the page of lookups shows: the assistant beside it may be asked about it. */
export const lookedUp = signal(/** @type {{ kind: string, id: string } | null} */ (null));

/** Go to a page of the dashboard. @param {string} to @param {{ replace?: boolean }} [options] */
export function go(to, { replace = false } = {}) {
  if (to !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", to);
  const before = place.value.path;
  place.value = read();
  if (before !== place.value.path) {
    scrollTo(0, 0);
    document.querySelector("main")?.focus({ preventScroll: true });
  }
}

/** Change filters of this page, which stay in its address. @param {Record<string, string | undefined>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

/** Let links within the dashboard change the page without loading it anew. */
export function followLinks() {
  addEventListener("popstate", () => (place.value = read()));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.origin !== location.origin || !/^\/app(\/|$)/.test(link.pathname) || link.pathname.startsWith("/app/sign-in")) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
