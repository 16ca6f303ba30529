// One lookup: what is known, from whom and how old, where sources disagree, and who was silent.

import { html, useState } from "../vendor/preact.js";
import { post } from "../api.js";
import { useResource } from "../resource.js";
import { count, duration, named, visible } from "../format.js";
import { lookedUp, setQuery } from "../router.js";
import { Problem, Status, Time } from "../components/basics.js";
import { Value } from "../components/value.js";

/** The kinds, with the field of their body. */
const KINDS = /** @type {Record<string, { field: string, example: string, free?: boolean }>} */ ({
  ip: { field: "ip", example: "185.220.101.1", free: true },
  domain: { field: "domain", example: "example.com" },
  email: { field: "email", example: "ada@example.com" },
  phone: { field: "phone", example: "+14155552671" },
  company: { field: "company", example: "Example Bank" },
  breach: { field: "email", example: "ada@example.com", free: true },
  validate: { field: "email", example: "ada@example.com", free: true },
  username: { field: "username", example: "ada" },
  darkweb: { field: "query", example: "example.com" },
  websearch: { field: "query", example: "example" },
});
const ABOUT = new Set(["credits", "cached", "partial", "providers", "sources", "conflicts", "verdict", "message"]);

/** @param {{ query: Record<string, string> }} props */
export function Page({ query }) {
  const kind = query.kind && Object.hasOwn(KINDS, query.kind) ? query.kind : "ip";
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const credits = useResource("/api/credits");
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const target = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("target") ?? "").trim();
    setBusy(true);
    setError(null);
    try {
      setAnswer({ kind, target, of: await post(`/api/lookups/${kind}`, { [KINDS[kind].field]: target }), at: new Date().toISOString() });
      lookedUp.value = { kind: "lookup", id: `${kind} ${target.replace(/[[\]]/g, "")}`.slice(0, 300) };
      credits.reload();
    } catch (refusal) {
      setAnswer(null);
      setError(refusal);
    }
    setBusy(false);
  };
  return html`<header class="title"><h1>Lookup</h1></header>
    <form class="filters" onSubmit=${submit}>
      <label>Kind <select value=${kind} onChange=${(/** @type {any} */ event) => { setQuery({ kind: event.target.value }); setAnswer(null); }}>${Object.keys(KINDS).map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <label>Target <input name="target" required maxlength="2000" placeholder=${KINDS[kind].example} autocomplete="off" spellcheck=${false} /></label>
      <button type="submit" class="primary" disabled=${busy}>${busy ? "Asking …" : "Look up"}</button>
      <span class="quiet">${KINDS[kind].free ? "free" : "costs credits only if a source answers"} · ${credits.data ? `${count(credits.data.balance)} credits left` : ""}</span>
    </form>
    <${Problem} error=${error} />
    ${answer?.kind === kind && html`<${Answer} answer=${answer} />`}`;
}

/** @param {{ answer: any }} props */
function Answer({ answer }) {
  const found = answer.of;
  const asked = providersOf(found);
  const fields = Object.entries(found).filter(([name]) => !ABOUT.has(name)).flatMap(([name, value]) => leaves(name, value));
  const [known, unknown] = [fields.filter(([, value]) => !isUnknown(value)), fields.filter(([, value]) => isUnknown(value))];
  const silent = asked.filter((one) => !["ok", "empty", "cached", "skipped"].includes(one.status));
  return html`<article class="card">
    <h2>${named(answer.target)}</h2>
    <${Verdict} verdict=${found.verdict} />
    ${found.message && html`<p>${visible(found.message)}</p>`}
    <p class="quiet">${found.credits} credits · ${found.cached ? "cached answer" : "fresh answer"} · ${silent.length ? html`no answer from ${silent.map((one) => visible(one.name)).join(", ")}` : "all sources answered"} · <${Time} at=${answer.at} /></p>
    <div class="scroll" tabindex="0"><table><thead><tr><th>Field</th><th>Value</th><th>From</th><th>As of</th></tr></thead>
      <tbody>${known.slice(0, 200).map(([name, value]) => html`<${Field} key=${name} name=${name} value=${value} found=${found} asked=${asked} />`)}</tbody></table></div>
    ${unknown.length > 0 && html`<details><summary>${unknown.length} fields that no source knows</summary><p>${unknown.map(([name]) => visible(name)).join(", ")}</p></details>`}
    <h3>Sources asked</h3>
    <div class="scroll" tabindex="0"><table><thead><tr><th>Source</th><th>Answer</th><th>Fields</th><th class="number">Took</th><th>As of</th></tr></thead>
      <tbody>${asked.map((one) => html`<tr key=${one.name}><td>${visible(one.name)}</td><td><${Status} of=${one.status} />${one.stale ? " an older answer" : ""}</td><td class="why">${visible((one.fields ?? []).join(", "))}</td><td class="number">${duration(one.ms)}</td><td><${Time} at=${one.fetched_at} /></td></tr>`)}</tbody></table></div>
  </article>`;
}

/** @param {any} found @returns {any[]} */
const providersOf = (found) => (found.providers ?? []).filter((/** @type {any} */ one) => one && typeof one === "object");

/** The fields within a group, by their path. @param {string} name @param {unknown} value @returns {[string, unknown][]} */
const leaves = (name, value) =>
  value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value).map(([inner, one]) => [`${name}.${inner}`, one]) : [[name, value]];

/** @param {unknown} value */
const isUnknown = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);

/** @param {{ verdict: any }} props */
function Verdict({ verdict }) {
  if (!verdict?.level) return null;
  return html`<div class=${`verdict ${visible(verdict.level)}`}><strong>${visible(verdict.level)}</strong>
    ${verdict.reasons?.length > 0 && html`<ul>${verdict.reasons.map((/** @type {any} */ one) => html`<li key=${`${one.code}${one.source}`}>${visible(one.code).replaceAll("_", " ")} <span class="quiet">(${visible(one.source)}: ${visible(one.field)}, ${one.weight > 0 ? `+${one.weight}` : one.weight})</span></li>`)}</ul>`}</div>`;
}

/** @param {{ name: string, value: unknown, found: any, asked: any[] }} props */
function Field({ name, value, found, asked }) {
  const from = [found.sources?.[name] ?? found.sources?.[name.split(".")[0]] ?? []].flat();
  const times = asked.filter((one) => from.includes(one.name) && one.fetched_at).map((one) => one.fetched_at);
  const conflict = found.conflicts?.[name];
  return html`<tr><th scope="row">${visible(name.replaceAll("_", " ").replace(".", " · "))}</th>
    <td><${Value} of=${value} depth=${1} />${conflict && html`<div class="conflict"><strong>Sources disagree:</strong> ${Object.entries(conflict).map(([source, said]) => html`<div key=${source}>${visible(source)}: <${Value} of=${said} depth=${1} /></div>`)}</div>`}</td>
    <td>${visible(from.join(", "))}</td><td><${Time} at=${times.sort()[0]} /></td></tr>`;
}
