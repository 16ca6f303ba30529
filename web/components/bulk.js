// Retry or cancel many runs: how many there are, what that can cost, and their number typed before it is done.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get, post } from "../api.js";
import { count, visible } from "../format.js";
import { Problem, Status } from "./basics.js";
import { Dialog } from "./dialog.js";

const BULK = "/api/workflows/runs/bulk";
const ACTIONS = "/api/bulk-actions";
const PAUSE = 1000;
const WORDS = /** @type {Record<string, { do: string, done: string, of: string[] }>} */ ({
  retry: { do: "Retry", done: "retried", of: ["failed", "cancelled"] },
  cancel: { do: "Cancel", done: "cancelled", of: ["queued", "running", "waiting"] },
});

/** Buttons for what can be done to all runs of a filter. @param {{ filter: Record<string, string>, actions?: string[] }} props */
export function BulkButtons({ filter, actions = ["retry", "cancel"] }) {
  const [action, setAction] = useState("");
  const fitting = actions.filter((one) => !filter.status || WORDS[one].of.includes(filter.status));
  return html`${fitting.map((one) => html`<button key=${one} type="button" onClick=${() => setAction(one)}>${WORDS[one].do} all …</button> `)}
    ${action && html`<${BulkDialog} action=${action} filter=${filter} onClose=${() => setAction("")} />`}`;
}

/** @param {{ action: string, filter: Record<string, string>, onClose: () => void }} props */
function BulkDialog({ action, filter, onClose }) {
  const [version, setVersion] = useState("same");
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [accepted, setAccepted] = useState(/** @type {any} */ (null));
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const body = { filter, action, version };
  useEffect(() => {
    let over = false;
    setTold(null);
    setTyped("");
    post(BULK, { ...body, dry: true }).then(
      (forecast) => !over && (setTold(forecast), setError(null)),
      (refusal) => !over && setError(refusal),
    );
    return () => { over = true; };
  }, [JSON.stringify(body)]);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    post(BULK, { ...body, confirm: told.confirm }).then((made) => { setError(null); setAccepted(made); }, setError);
  };
  const words = WORDS[action];
  return html`<${Dialog} title=${`${words.do} all matching runs`} onClose=${onClose}>
    ${accepted
      ? html`<${Progress} accepted=${accepted} done=${words.done} />`
      : html`<form onSubmit=${submit}>
          <p>${Object.keys(filter).length ? Object.entries(filter).map(([name, value]) => html`<span class="chip" key=${name}>${name.replaceAll("_", " ")}: ${visible(value)}</span> `) : "All runs of the account."}</p>
          ${action === "retry" && html`<label>With <select value=${version} onChange=${(/** @type {any} */ one) => setVersion(one.target.value)}><option value="same">the version that each has run</option><option value="newest">the newest version</option></select></label>`}
          <p role="status">${told ? gistOf(told, action) : error ? "" : "Counting …"}</p>
          ${told?.count > 0 && html`<label>Type ${told.count} to confirm <input name="count" inputmode="numeric" autocomplete="off" value=${typed} onInput=${(/** @type {any} */ one) => setTyped(one.target.value)} /></label>
            <p class="quiet">${action === "retry" ? "Repeated steps send their requests again." : "Completed steps are not undone."}</p>`}
          <${Problem} error=${error} />
          <div class="actions"><button type="submit" class="primary" disabled=${!told?.count || typed.trim() !== String(told.count)}>${words.do} ${told ? count(told.count) : ""} runs</button></div>
        </form>`}<//>`;
}

/** @param {any} told @param {string} action */
function gistOf(told, action) {
  if (!told.count) return "No run matches.";
  const cost = told.credits_max === null ? "; their cost is not known in advance" : `; at most ${count(told.credits_max)} credits`;
  return `${count(told.count)} ${told.count === 1 ? "run matches" : "runs match"}${action === "retry" ? cost : ""}.`;
}

/** How far it is, asked for each second until it has ended. @param {{ accepted: any, done: string }} props */
function Progress({ accepted, done }) {
  const [found, setFound] = useState(accepted);
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (found.completed_at) return undefined;
    const timer = setTimeout(
      () => get(`${ACTIONS}/${found.id}`).then((next) => { setError(null); setFound(next); }, (refusal) => { setError(refusal); setFound({ ...found }); }),
      PAUSE,
    );
    return () => clearTimeout(timer);
  }, [found]);
  const cancel = () => post(`${ACTIONS}/${found.id}/cancel`).then(setFound, setError);
  return html`<p role="status"><${Status} of=${found.status} /> ${count(found.done)} of ${count(found.total)} ${done}${found.failed ? `, ${count(found.failed)} failed` : ""}</p>
    <progress max=${Math.max(found.total, 1)} value=${found.total - left(found)} aria-label="How far it is"></progress>
    ${Object.entries(found.skipped).length > 0 && html`<p>Left as they are: ${Object.entries(found.skipped).map(([code, n]) => html`<a key=${code} href=${`/errors/${encodeURIComponent(code)}`} target="_blank">${visible(code)}</a> (${count(/** @type {number} */ (n))}) `)}</p>`}
    <${Problem} error=${error} />
    ${!found.completed_at && html`<div class="actions"><button type="button" onClick=${cancel}>Stop</button></div>`}`;
}

/** @param {any} found */
function left(found) {
  const skipped = Object.values(found.skipped).reduce((/** @type {number} */ sum, n) => sum + Number(n), 0);
  return found.total - found.done - found.failed - skipped;
}
