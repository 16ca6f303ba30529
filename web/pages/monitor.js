// One monitor: what changed, field by field, and what is not known and why.

import { html } from "../vendor/preact.js";
import { post } from "../api.js";
import { useResource } from "../resource.js";
import { useState } from "../vendor/preact.js";
import { count, named, visible } from "../format.js";
import { setQuery } from "../router.js";
import { Loaded, Problem, Status, Text, Time, Title } from "../components/basics.js";
import { Heartbeat } from "../components/heartbeat.js";
import { Value } from "../components/value.js";
import { beatsOf } from "./monitors.js";

const WHY = /** @type {Record<string, string>} */ ({
  failed: "it failed", limited: "it was asked too often", no_key: "its key is missing", no_data: "its data is missing", quota: "its quota is used up",
});

/** @param {{ id: string, query: Record<string, string> }} props */
export function Page({ id, query }) {
  const monitor = useResource(`/api/monitors/${id}`, {}, ["monitor_run"]);
  const runs = useResource(`/api/monitors/${id}/runs`, { limit: 40 }, ["monitor_run"]);
  const unseen = useResource("/api/monitoring/results", { monitor_id: id, unseen: true, limit: 100 }, ["monitor_run"]);
  const [error, setError] = useState(/** @type {any} */ (null));
  const act = (/** @type {string} */ what) => post(`/api/monitors/${id}/${what}`).then(() => { setError(null); monitor.reload(); runs.reload(); unseen.reload(); }, setError);
  return html`<${Loaded} of=${monitor}>${(/** @type {any} */ found) => html`
    <${Title} kind=${`Monitor of ${visible(found.monitor_type)}`} name=${found.name}>
      <p><${Status} of=${found.status} /> ${found.paused_reason && visible(found.paused_reason)} · ${count(found.target_count)} targets · last <${Time} at=${found.last_run_at} /> · next <${Time} at=${found.next_run_at} /></p>
      <p><${Heartbeat} beats=${beatsOf(runs.data?.runs ?? [])} /></p>
      <p class="actions"><button type="button" onClick=${() => act("run")}>Run now</button> <button type="button" onClick=${() => act(found.status === "paused" ? "resume" : "pause")}>${found.status === "paused" ? "Resume" : "Pause"}</button></p><//>
    <${Problem} error=${error} />
    <div class="columns wide-first"><section aria-label="Changes">${!query.run && html`<${Loaded} of=${unseen}>${(/** @type {any} */ page) => html`<${Unseen} monitor=${found} page=${page} onSeen=${(/** @type {string} */ run) => act(`runs/${run}/seen`)} />`}<//>`}
      <${Loaded} of=${runs}>${(/** @type {any} */ page) => html`<${Changes} monitor=${found} runs=${page.runs} chosen=${query.run} all=${query.all === "yes"} />`}<//></section>
      <aside><h2>Sources</h2><${Sources} sources=${found.sources} />
        <h2>Runs</h2><${Loaded} of=${runs}>${(/** @type {any} */ page) => html`<ul>${page.runs.slice(0, 15).map((/** @type {any} */ run) => html`<li key=${run.id}><button type="button" class="plain" aria-pressed=${query.run === run.id} onClick=${() => setQuery({ run: run.id })}><${Status} of=${run.status} /> <${Time} at=${run.started_at} /></button> <span class="quiet">${count(run.changes_detected)} changes${run.failed_records ? `, ${count(run.failed_records)} failed` : ""}</span></li>`)}</ul>`}<//></aside></div>`}<//>`;
}

/** What is wrong comes first. @param {any} one */
const rank = (one) => (one.silent_since ? 0 : one.heard_at ? 1 : 2);

/** @param {{ sources: any[] }} props */
const Sources = ({ sources }) =>
  sources?.length
    ? html`<ul>${[...sources].sort((a, b) => rank(a) - rank(b)).map((one) => html`<li key=${one.source}>${visible(one.source)}: ${one.silent_since ? html`<${Status} of="silent" /> since <${Time} at=${one.silent_since} />, ${WHY[one.why] ?? visible(one.why ?? "")}` : one.heard_at ? html`<${Status} of="heard" /> <${Time} at=${one.heard_at} />` : html`<span class="quiet">no answer yet</span>`}</li>`)}</ul>`
    : html`<p class="quiet">No source has been asked yet.</p>`;

/** What changed since one last looked. Opening the page marks nothing. @param {{ monitor: any, page: any, onSeen: (run: string) => void }} props */
function Unseen({ monitor, page, onSeen }) {
  const since = monitor.seen_at ? html`since you last looked, <${Time} at=${monitor.seen_at} />` : "that nobody has marked as seen";
  if (!page.results.length) return html`<p class="quiet">Nothing has changed ${since}.</p>`;
  // A run under way can still find changes: only ended ones are marked.
  const ended = page.results.find((/** @type {any} */ one) => one.completed_at);
  return html`<h2>${count(page.total)} ${page.total === 1 ? "change" : "changes"} <span class="quiet">${since}</span></h2>
    ${page.total > page.results.length && html`<p class="quiet">The newest ${count(page.results.length)} are shown. "Mark as seen" marks the others too.</p>`}
    ${ended && html`<p class="actions"><button type="button" onClick=${() => onSeen(ended.run_id)}>Mark as seen</button></p>`}
    ${page.results.map((/** @type {any} */ one) => html`<${Target} result=${one} key=${one.id} />`)}`;
}

/** @param {{ monitor: any, runs: any[], chosen: string | undefined, all: boolean }} props */
function Changes({ monitor, runs, chosen, all }) {
  const run = runs.find((one) => one.id === chosen) ?? runs.find((one) => one.changes_detected) ?? runs[0];
  const results = useResource(run ? `/api/monitors/${monitor.id}/runs/${run.id}/results` : null, { changes_only: all ? undefined : true, limit: 100, offset: 0 }, ["monitor_run"]);
  // Its unseen changes stand above.
  if (!chosen && !all && run?.changes_detected && !(monitor.seen_run_id >= run.id)) return null;
  if (!run) return html`<h2>Changes</h2><p class="quiet">No run yet. The first is due <${Time} at=${monitor.next_run_at} />; later runs are compared with it.</p>`;
  return html`<h2>Changes <span class="quiet">in the run of <${Time} at=${run.started_at} full /></span></h2>
    <p><label><input type="checkbox" checked=${all} onChange=${() => setQuery({ all: all ? undefined : "yes" })} /> also targets without changes</label></p>
    ${run.error && html`<${Problem} error=${{ problem: { ...run.error, detail: run.error.message } }} />`}
    <${Loaded} of=${results}>${(/** @type {any} */ found) => {
      const rows = found.results ?? found;
      return rows.length ? rows.slice(0, 200).map((/** @type {any} */ one) => html`<${Target} result=${one} key=${one.id} />`) : html`<p class="quiet">Nothing changed.</p>`;
    }}<//>`;
}

/** @param {{ result: any }} props */
function Target({ result }) {
  const changes = Object.entries(result.changes ?? {});
  return html`<article class="target">
    <h3>${named(result.target)} ${result.completed_at && html`<span class="quiet"><${Time} at=${result.completed_at} /></span>`}</h3>
    ${result.error && html`<div class="problem"><p>${visible(result.error.message)} <a href=${`/errors/${encodeURIComponent(result.error.code)}`} target="_blank">${visible(result.error.code)}</a></p></div>`}
    ${result.silent?.filter((/** @type {any} */ one) => one.why !== "not_set_up").map((/** @type {any} */ one) => html`<p class="quiet" key=${one.source}>${visible(one.source)} has not answered since <${Time} at=${one.since} />: ${WHY[one.why] ?? visible(one.why)}.</p>`)}
    ${changes.length > 0 && html`<table><thead><tr><th>Field</th><th>Before</th><th>Now</th></tr></thead>
      <tbody>${changes.map(([field, change]) => html`<tr key=${field}><td>${visible(field)}</td><td class="old"><${Value} of=${before(change)} depth=${1} /></td><td class="new"><${Value} of=${after(change)} depth=${1} /></td></tr>`)}</tbody></table>`}
    <details><summary>All fields, including unchanged ones</summary><${Value} of=${result.data} /></details></article>`;
}

/** @param {any} change */
const before = (change) => change?.old ?? change?.removed;
/** @param {any} change */
const after = (change) => change?.new ?? change?.added ?? change?.rotating;
