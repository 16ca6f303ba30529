// All monitors, with what became of their last runs.

import { html } from "../vendor/preact.js";
import { useResource } from "../resource.js";
import { count, named, visible } from "../format.js";
import { Empty, Loaded, Status, Time } from "../components/basics.js";
import { Heartbeat } from "../components/heartbeat.js";

export function Page() {
  const monitors = useResource("/api/monitors", {}, ["monitor_run"]);
  const runs = useResource("/api/monitoring/runs", { limit: 100 }, ["monitor_run"]);
  /** @type {Map<string, any[]>} */
  const runsOf = new Map();
  for (const run of runs.data?.runs ?? []) runsOf.set(run.monitor_id, [...(runsOf.get(run.monitor_id) ?? []), run]);
  return html`<header class="title"><h1>Monitors</h1></header>
    <${Loaded} of=${monitors}>${(/** @type {any} */ found) =>
      found.monitors.length
        ? html`<div class="scroll"><table>
            <thead><tr><th>Monitor</th><th>State</th><th>Watches</th><th class="number">Targets</th><th>Last runs</th><th class="number">New changes</th><th>Last</th><th>Next</th></tr></thead>
            <tbody>${found.monitors.slice(0, 200).map(
              (/** @type {any} */ one) => html`<tr key=${one.id}><td><a href=${`/app/monitors/${one.id}`}>${named(one.name)}</a></td>
                <td><${Status} of=${one.status} />${one.paused_reason && html`<br /><span class="quiet">${visible(one.paused_reason)}</span>`}</td>
                <td>${visible(one.monitor_type)}</td><td class="number">${count(one.target_count)}</td>
                <td><${Heartbeat} beats=${beatsOf(runsOf.get(one.id) ?? [])} column /></td>
                <td class="number">${one.unseen_changes ? html`<strong>${count(one.unseen_changes)}</strong>` : "–"}</td><td><${Time} at=${one.last_run_at} /></td><td><${Time} at=${one.next_run_at} /></td></tr>`,
            )}</tbody></table></div>`
        : html`<${Empty} title="No monitors yet"><p>A monitor looks up targets regularly and reports what changed. <a href="/docs/first-monitor" target="_blank">How to make one</a>.</p><//>`}<//>`;
}

/** @param {any[]} runs newest first */
export const beatsOf = (runs) =>
  runs.map((run) => ({
    state: run.status === "completed" && run.changes_detected ? "changed" : run.status,
    title: `${run.status}: ${run.changes_detected} changes, ${run.failed_records} failed of ${run.total_records}`,
  }));
