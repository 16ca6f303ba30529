// Failed runs by their cause: code, workflow and step, the most frequent first.

import { html } from "../vendor/preact.js";
import { withQuery } from "../api.js";
import { useResource } from "../resource.js";
import { setQuery } from "../router.js";
import { count, named, visible } from "../format.js";
import { Empty, Loaded, Time } from "../components/basics.js";
import { BulkButtons } from "../components/bulk.js";
import { Heartbeat } from "../components/heartbeat.js";
import { Series } from "../components/series.js";

const RUNS = 100;
const SLOTS = 40;
const WINDOWS = ["1h", "24h", "7d", "30d"];

/** @param {{ query: Record<string, string> }} props */
export function Page({ query }) {
  const failed = useResource("/api/workflows/runs", { status: "failed", limit: RUNS }, ["run"]);
  return html`<header class="title"><h1>Errors</h1><p class="quiet">The last ${RUNS} failed runs, by cause.</p></header>
    <${OverTime} window=${query.window ?? "24h"} />
    <${Loaded} of=${failed}>${(/** @type {any} */ found) => (found.runs.length ? html`<${Groups} runs=${found.runs} />` : html`<${Empty} title="No run has failed"><p>Failed runs are grouped here by cause.</p><//>`)}<//>`;
}

/** Failed runs of a time up to now, however many. @param {{ window: string }} props */
function OverTime({ window }) {
  const stats = useResource("/api/stats", { window }, ["run"]);
  return html`<section aria-label="Over time"><div class="filters" role="group" aria-label="Time">${WINDOWS.map((one) => html`<button key=${one} type="button" aria-pressed=${one === window} onClick=${() => setQuery({ window: one })}>${one}</button>`)}</div>
    <${Loaded} of=${stats}>${(/** @type {any} */ found) => html`<${Series} label="Over time" unit="failed runs" colour="--bad" bars points=${found.buckets.map((/** @type {any} */ one) => ({ at: one.at, value: one.runs.failed }))} />`}<//></section>`;
}

/** @typedef {{ code: string, message: string, workflow: string, workflow_id: string, step: string | null, runs: any[] }} Group */

/** @param {any[]} runs @returns {Group[]} newest run first in each */
function groupsOf(runs) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const run of runs) {
    const code = run.error?.code ?? "unknown";
    const step = run.error?.step ?? null;
    const key = JSON.stringify([code, run.workflow_id, step]);
    /** @type {Group} */
    const group = groups.get(key) ?? { code, message: run.error?.message ?? "", workflow: run.workflow_name, workflow_id: run.workflow_id, step, runs: [] };
    group.runs.push(run);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.runs.length - a.runs.length);
}

/** @param {{ runs: any[] }} props */
function Groups({ runs }) {
  const times = runs.map((run) => Date.parse(run.completed_at ?? run.started_at)).filter(Number.isFinite);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return html`<div class="scroll"><table>
    <thead><tr><th>Cause</th><th>Workflow</th><th>Step</th><th class="number">Runs</th><th>Over time</th><th>Last</th><th><span class="sr-only">Actions</span></th></tr></thead>
    <tbody>${groupsOf(runs).map((group) => {
      const filter = { status: "failed", error_code: group.code, workflow_id: group.workflow_id, ...(group.step && { step: group.step }) };
      const to = withQuery("/app/runs", filter);
      return html`<tr key=${to}>
        <td class="why"><a href=${to}><code>${visible(group.code)}</code></a><br /><span class="quiet">${visible(group.message).slice(0, 160)}</span></td>
        <td><a href=${`/app/workflows/${group.workflow_id}`}>${named(group.workflow)}</a></td>
        <td>${group.step ? visible(group.step) : "–"}</td><td class="number">${count(group.runs.length)}</td>
        <td><${Heartbeat} beats=${beatsOf(group.runs, first, last)} /></td>
        <td><${Time} at=${group.runs[0].completed_at ?? group.runs[0].started_at} /></td>
        <td><${BulkButtons} filter=${filter} actions=${["retry"]} /></td></tr>`;
    })}</tbody></table></div>`;
}

/** @param {any[]} runs @param {number} first @param {number} last */
function beatsOf(runs, first, last) {
  const slots = new Array(SLOTS).fill(0);
  for (const run of runs) {
    const at = Date.parse(run.completed_at ?? run.started_at);
    slots[Math.min(SLOTS - 1, Math.floor(((at - first) / Math.max(last - first, 1)) * SLOTS))] += 1;
  }
  return slots.reverse().map((n) => ({ state: n ? "failed" : "none", title: `${n} failed` }));
}
