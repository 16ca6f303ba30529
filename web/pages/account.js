// Keys, sessions and credits.

import { html, useState } from "../vendor/preact.js";
import { call, post } from "../api.js";
import { useResource } from "../resource.js";
import { count, named, visible } from "../format.js";
import { Copyable, Loaded, Problem, Status, Time } from "../components/basics.js";
import { Dialog } from "../components/dialog.js";
import { Series } from "../components/series.js";

const SCOPES = ["lookups", "bulk", "lists", "monitors", "workflows", "webhooks", "credits"];

export function Page() {
  return html`<header class="title"><h1>Account</h1></header><${Keys} /><${Sessions} /><${Credits} />`;
}

function Keys() {
  const keys = useResource("/api/keys");
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const revoke = (/** @type {any} */ key) => confirm(`Revoke the key "${key.name}"? Programs that use it stop working at once.`) && call("DELETE", `/api/keys/${key.id}`).then(keys.reload, setError);
  return html`<section aria-labelledby="keys"><h2 id="keys">Keys</h2><p class="quiet">Programs and agents use a key.</p>
    <${Problem} error=${error} />
    <${Loaded} of=${keys}>${(/** @type {any} */ found) => html`<div class="scroll" tabindex="0"><table><thead><tr><th>Name</th><th>Key</th><th>Scopes</th><th class="number">Requests</th><th>Last used</th><th>Ends</th><th><span class="sr-only">Actions</span></th></tr></thead>
      <tbody>${found.keys.map((/** @type {any} */ key) => html`<tr key=${key.id}><td>${named(key.name)}</td><td><code>${visible(key.key_preview)}</code></td><td>${key.scopes.join(", ")}</td><td class="number">${count(key.total_requests)}</td><td><${Time} at=${key.last_used} /></td><td>${key.revoked_at ? html`<${Status} of="disabled" /> revoked` : html`<${Time} at=${key.expires_at} />`}</td>
        <td>${!key.revoked_at && html`<button type="button" class="plain" onClick=${() => revoke(key)}>Revoke</button>`}</td></tr>`)}</tbody></table></div>`}<//>
    <p><button type="button" class="primary" onClick=${() => setAsking(true)}>Create a key</button></p>
    ${asking && html`<${NewKey} onClose=${() => { setAsking(false); keys.reload(); }} />`}</section>`;
}

/** @param {{ onClose: () => void }} props */
function NewKey({ onClose }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    await post("/api/keys", { name: form.get("name"), scopes: form.getAll("scope") }).then(setMade, setError);
  };
  return html`<${Dialog} title="A new key" onClose=${onClose}>
    ${made
      ? html`<p>This is the key. It is shown only once.</p><${Copyable} text=${made.key} />`
      : html`<form onSubmit=${submit}><label>Name <input name="name" required maxlength="200" /></label>
          <fieldset><legend>It may use</legend>${SCOPES.map((scope) => html`<label key=${scope}><input type="checkbox" name="scope" value=${scope} defaultChecked=${true} /> ${scope}</label>`)}</fieldset>
          <${Problem} error=${error} /><div class="actions"><button type="submit" class="primary">Create the key</button></div></form>`}<//>`;
}

function Sessions() {
  const sessions = useResource("/api/auth/sessions");
  const [error, setError] = useState(/** @type {any} */ (null));
  const end = (/** @type {string} */ path) => call("DELETE", path).then(sessions.reload, setError);
  return html`<section aria-labelledby="sessions"><h2 id="sessions">Sessions</h2><${Problem} error=${error} />
    <${Loaded} of=${sessions}>${(/** @type {any} */ found) => html`<div class="scroll" tabindex="0"><table><thead><tr><th>Kind</th><th>From</th><th>Browser</th><th>Began</th><th>Ends</th><th><span class="sr-only">Actions</span></th></tr></thead>
      <tbody>${found.sessions.map((/** @type {any} */ one) => html`<tr key=${one.id}><td>${one.kind}${one.current ? " (this one)" : ""}</td><td>${visible(one.ip ?? "–")}</td><td class="why">${visible(one.user_agent ?? "–")}</td><td><${Time} at=${one.created_at} /></td><td><${Time} at=${one.expires_at} /></td>
        <td>${!one.current && html`<button type="button" class="plain" onClick=${() => end(`/api/auth/sessions/${one.id}`)}>End it</button>`}</td></tr>`)}</tbody></table></div>
      ${found.sessions.length > 1 && html`<p><button type="button" onClick=${() => end("/api/auth/sessions")}>End all others</button></p>`}`}<//></section>`;
}

function Credits() {
  const credits = useResource("/api/credits");
  const ledger = useResource("/api/credits/ledger", { limit: 100 });
  return html`<section aria-labelledby="credits"><h2 id="credits">Credits</h2>
    <${Loaded} of=${credits}>${(/** @type {any} */ found) => html`<p><strong>${count(found.balance)}</strong> left${found.held ? html`, plus ${count(found.held)} held for work in progress` : ""}; ${count(found.used)} used.</p>`}<//>
    <${Loaded} of=${ledger}>${(/** @type {any} */ found) => html`${found.entries.length > 1 && html`<${Series} label="Balance" unit="credits" colour="--accent" points=${balancesOf(found.entries)} />`}
      <div class="scroll" tabindex="0"><table><thead><tr><th>When</th><th>What</th><th>For</th><th class="number">Amount</th><th class="number">Balance</th></tr></thead>
        <tbody>${found.entries.slice(0, 50).map((/** @type {any} */ one) => html`<tr key=${one.id}><td><${Time} at=${one.created_at} /></td><td>${visible(one.kind)}</td><td class="why">${visible(one.description ?? one.reference ?? "")}</td><td class="number">${count(one.amount)}</td><td class="number">${count(one.balance_after)}</td></tr>`)}</tbody></table></div>`}<//></section>`;
}

/** @param {any[]} entries newest first @returns {{ at: string, value: number }[]} */
const balancesOf = (entries) => entries.map((one) => ({ at: one.created_at, value: one.balance_after })).reverse();
