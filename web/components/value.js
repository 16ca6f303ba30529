// Any JSON value, folded: never more than some hundred lines at once, however large it is.

import { html, useState } from "../vendor/preact.js";
import { Text } from "./basics.js";
import { visible } from "../format.js";

const AT_ONCE = 50;
const LONG = 1000;
const SHORT = 80;
const OURS = /^(https?:\/\/[^/]*)?\/api\/workflows\/runs\/[\w\-/.%]+$/;

/** @param {{ of: unknown, depth?: number }} props */
export function Value({ of, depth = 0 }) {
  if (of === null || of === undefined) return html`<span class="quiet">null</span>`;
  if (typeof of === "string") return html`<${LongText} text=${of} />`;
  if (typeof of !== "object") return html`<span class="number">${String(of)}</span>`;
  const omitted = /** @type {any} */ (of);
  // An event may have these names too: only the address of a value of ours is followed.
  if (omitted.omitted === true && typeof omitted.url === "string" && OURS.test(omitted.url))
    return html`<span>too large to show: ${String(omitted.bytes)} bytes, <a href=${omitted.url.replace(/^https?:\/\/[^/]*/, "")} target="_blank">read it</a></span>`;
  if (depth > 1 && isLine(omitted)) return html`<span>${Object.entries(of).map(([name, value], n) => html`${n > 0 && ", "}<span class="quiet">${visible(name)}</span> <${Value} of=${value} />`)}</span>`;
  return html`<${Entries} of=${of} depth=${depth} />`;
}

/** Whether a few short fields fit a line, such as a reason of a verdict. @param {Record<string, unknown>} of */
const isLine = (of) => {
  const values = Array.isArray(of) ? [] : Object.values(of);
  return values.length > 0 && values.length < 6 && values.every((one) => (one === null || typeof one !== "object") && String(one).length < SHORT);
};

/** @param {{ text: string }} props */
function LongText({ text }) {
  const [whole, setWhole] = useState(false);
  if (text.trim() === "" && text !== "") return html`<span class="text">${JSON.stringify(text)}</span>`;
  if (text.length <= LONG) return html`<span class="text"><${Text} text=${text} /></span>`;
  return html`<span class="text">${visible(whole ? text.slice(0, 100_000) : text.slice(0, LONG))}</span>
    <button type="button" class="plain" onClick=${() => setWhole(!whole)}>${whole ? "less" : `… ${text.length.toLocaleString()} characters`}</button>`;
}

/** @param {{ of: object, depth: number }} props */
function Entries({ of, depth }) {
  const isList = Array.isArray(of);
  const entries = Object.entries(of);
  const [open, setOpen] = useState(depth < 2 && entries.length <= AT_ONCE);
  const [shown, setShown] = useState(AT_ONCE);
  if (!entries.length) return html`<span class="quiet">${isList ? "[]" : "{}"}</span>`;
  const size = isList ? `${entries.length} items` : `${entries.length} fields`;
  if (!open) return html`<button type="button" class="plain fold" aria-expanded="false" onClick=${() => setOpen(true)}>▸ ${size}</button>`;
  return html`<div class="value">
    ${depth > 0 && html`<button type="button" class="plain fold" aria-expanded="true" onClick=${() => setOpen(false)}>▾ ${size}</button>`}
    <dl class=${isList ? "list" : ""}>${entries.slice(0, shown).map(([name, value]) => html`<div key=${name}><dt>${visible(name)}</dt><dd><${Value} of=${value} depth=${depth + 1} /></dd></div>`)}</dl>
    ${entries.length > shown && html`<button type="button" class="plain" onClick=${() => setShown(shown + 200)}>${entries.length - shown} more</button>`}
  </div>`;
}
