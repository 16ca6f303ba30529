// Small pieces that all pages share: times, states, links, problems, empty pages.

import { html, signal } from "../vendor/preact.js";
import { ago, localTime, named, utcTime, visible, webAddress } from "../format.js";

/** Ticks so that "2 min ago" stays true. */
const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), 10_000);

/** A moment: how long ago, with the local time and UTC on hover. @param {{ at: string | null | undefined, full?: boolean }} props */
export function Time({ at, full = false }) {
  if (!at) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${at} title=${`${localTime(at)} · ${utcTime(at)}`}>${full ? localTime(at) : ago(at, now.value)}</time>`;
}

const SIGNS = /** @type {Record<string, string>} */ ({
  completed: "✓", delivered: "✓", active: "✓", ok: "✓", heard: "✓", failed: "✕", disabled: "✕", error: "✕", silent: "✕",
  cancelled: "⊘", skipped: "→", running: "▶", queued: "…", waiting: "‖", pending: "…", paused: "‖", draft: "✎", partial: "◐",
});

/** A state by sign and word, not by colour alone. @param {{ of: string }} props */
export const Status = ({ of }) =>
  html`<span class=${`status is-${visible(of).replace(/[^a-z_]/g, "")}`}><span aria-hidden="true">${SIGNS[of] ?? "•"}</span> ${visible(of)}</span>`;

/** A value that may be an address: a link for http and https, with its host; else text. @param {{ text: unknown }} props */
export function Text({ text }) {
  const url = webAddress(text);
  if (!url) return html`${visible(text)}`;
  const host = url.host; // as sent: names beyond ASCII are in punycode
  return html`<a href=${url.href} rel="noopener noreferrer nofollow" target="_blank">${visible(text)}</a>
    <span class="quiet"> (${host})</span>`;
}

/** What the API says is wrong: what, where, and what to do. @param {{ error: any, retry?: () => void }} props */
export function Problem({ error, retry }) {
  if (!error) return null;
  const problem = error.problem ?? { code: "bug_in_page", detail: String(error?.message ?? error) };
  return html`<div class="problem" role="alert">
    <p><strong>${visible(problem.detail)}</strong></p>
    ${problem.errors?.length > 1 &&
    html`<ul>${problem.errors.slice(0, 20).map((/** @type {any} */ one) => html`<li><code>${visible(one.pointer || one.parameter || "body")}</code>: ${visible(one.message)}</li>`)}</ul>`}
    <p class="quiet">
      ${problem.type ? html`<a href=${`/errors/${encodeURIComponent(problem.code)}`} target="_blank">${visible(problem.code)}</a>` : visible(problem.code)}
      ${problem.request_id && html` · request <code>${visible(problem.request_id)}</code>`}
    </p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/** Shows a page's content, or why there is none. @param {{ of: { data: any, error: any, loading: boolean, reload: () => void }, children: (data: any) => any }} props */
export function Loaded({ of, children }) {
  const { data, error, loading, reload } = of;
  if (data === null || data === undefined) return error ? html`<${Problem} error=${error} retry=${reload} />` : html`<p class="quiet" aria-busy=${loading}>Loading …</p>`;
  return html`${error && html`<${Problem} error=${error} retry=${reload} />`}${children(data)}`;
}

/** What to do where there is nothing yet. @param {{ title: string, children?: any }} props */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** A piece of text to copy. @param {{ text: string }} props */
export function Copyable({ text }) {
  const copy = async (/** @type {MouseEvent} */ event) => {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const block = button.previousElementSibling;
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } else if (block) getSelection()?.selectAllChildren(block); // plain http has no clipboard
  };
  return html`<div class="copyable"><pre tabindex="0">${text}</pre><button type="button" onClick=${copy}>Copy</button></div>`;
}

/** A heading with a name that somebody gave. @param {{ kind: string, name: unknown, children?: any }} props */
export const Title = ({ kind, name, children }) =>
  html`<header class="title"><p class="quiet">${kind}</p><h1>${named(name)}</h1>${children}</header>`;
