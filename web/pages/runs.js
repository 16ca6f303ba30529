// All runs, by filters that stand in the address.

import { html, useState } from "../vendor/preact.js";
import { post } from "../api.js";
import { useResource } from "../resource.js";
import { count, duration, localTime, named, visible } from "../format.js";
import { setQuery } from "../router.js";
import { Empty, Loaded, Problem, Status, Time } from "../components/basics.js";
import { BulkButtons } from "../components/bulk.js";

const STATES = ["queued", "running", "waiting", "completed", "failed", "cancelled"];
const FILTERS = ["workflow_id", "status", "since", "until", "trigger", "error_code", "step", "parent_run_id", "batch_id", "q"];
const ROWS = 50;

/** @param {{ query: Record<string, string> }} props */
export function Page({ query }) {
  const filter = Object.fromEntries(Object.entries(query).filter(([name]) => name !== "cursor"));
  const runs = useResource("/api/workflows/runs", { ...query, limit: ROWS }, ["run"]);
  const [trail, setTrail] = useState(/** @type {(string | undefined)[]} */ ([]));
  return html`<header class="title"><h1>Runs</h1></header>
    <${Filters} query=${filter} />
    <${Loaded} of=${runs}>${(/** @type {any} */ found) =>
      found.runs.length
        ? html`<${Table} runs=${found.runs} />
          <p class="pages">
            ${trail.length > 0 && html`<button type="button" onClick=${() => { setQuery({ cursor: trail[trail.length - 1] }); setTrail(trail.slice(0, -1)); }}>Newer</button>`}
            ${found.next_cursor && html`<button type="button" onClick=${() => { setTrail([...trail, query.cursor]); setQuery({ cursor: found.next_cursor }); }}>Older</button>`}
            ${found.total !== undefined && found.total !== null && html`<span class="quiet">${count(found.total)} in all</span>`}
            <${BulkButtons} filter=${known(filter)} />
          </p>`
        : html`<${Empty} title="No runs"><p>${Object.keys(filter).length ? html`No run matches these filters. <a href="/app/runs">All runs</a>` : html`There are none yet. <a href="/app">How to start one</a>`}</p><//>`}<//>`;
}

/** What the API takes as a filter of many runs. @param {Record<string, string>} filter */
const known = (filter) => Object.fromEntries(Object.entries(filter).filter(([name]) => FILTERS.includes(name)));

/** @param {{ query: Record<string, string> }} props */
function Filters({ query }) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    setQuery({ q: String(form.get("q") ?? "").trim() || undefined, error_code: String(form.get("error_code") ?? "").trim() || undefined, cursor: undefined });
  };
  const others = Object.keys(query).filter((name) => !["status", "q", "error_code"].includes(name));
  return html`<form class="filters" role="search" onSubmit=${submit}>
    <div role="group" aria-label="State">
      <button type="button" aria-pressed=${!query.status} onClick=${() => setQuery({ status: undefined, cursor: undefined })}>all</button>
      ${STATES.map((state) => html`<button key=${state} type="button" aria-pressed=${query.status === state} onClick=${() => setQuery({ status: state, cursor: undefined })}><${Status} of=${state} /></button>`)}
    </div>
    <label>Value <input name="q" value=${query.q ?? ""} placeholder="ada@example.com or ada*" maxlength="201" key=${`q${query.q}`} /></label>
    <label>Error code <input name="error_code" value=${query.error_code ?? ""} key=${`e${query.error_code}`} /></label>
    <button type="submit">Find</button>
    ${others.map(
      (name) => html`<span class="chip" key=${name}>${FILTERS.includes(name) ? name.replaceAll("_", " ") : visible(name)}: ${name === "since" || name === "until" ? localOr(query[name]) : visible(query[name])}
        <button type="button" class="plain" aria-label=${`Remove the filter ${visible(name)}`} onClick=${() => setQuery({ [name]: undefined, cursor: undefined })}>✕</button></span>`,
    )}
  </form>`;
}

/** @param {string} text */
const localOr = (text) => (Number.isNaN(Date.parse(text)) ? visible(text) : localTime(text));

/** @param {{ runs: any[] }} props */
function Table({ runs }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const retry = async (/** @type {string} */ id) => {
    try {
      await post(`/api/workflows/runs/${id}/retry`);
      setError(null);
    } catch (refusal) {
      setError(refusal);
    }
  };
  return html`<${Problem} error=${error} />
    <div class="scroll"><table>
      <thead><tr><th>Run</th><th>State</th><th>Why</th><th>Trigger</th><th>Began</th><th class="number">Took</th><th class="number">Steps</th><th><span class="sr-only">Actions</span></th></tr></thead>
      <tbody>${runs.map(
        (run) => html`<tr key=${run.id}>
          <td><a href=${`/app/runs/${run.id}`}>${named(run.workflow_name)}</a></td>
          <td><${Status} of=${run.status} /></td>
          <td class="why">${run.error ? html`<code>${visible(run.error.code)}</code> ${visible(run.error.message ?? "").slice(0, 120)}` : ""}</td>
          <td>${visible(run.trigger)}</td><td><${Time} at=${run.started_at ?? run.queued_at} /></td>
          <td class="number">${duration(run.duration_ms)}</td><td class="number">${run.steps_completed}/${run.steps_total}</td>
          <td>${run.status === "failed" && html`<button type="button" class="plain" onClick=${() => retry(run.id)}>Retry</button>`}</td>
        </tr>`,
      )}</tbody></table></div>`;
}
