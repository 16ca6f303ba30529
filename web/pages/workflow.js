// One workflow: its graph, its last runs, and the address to post events to.

import { html } from "../vendor/preact.js";
import { useResource } from "../resource.js";
import { count, duration, named, visible } from "../format.js";
import { setQuery } from "../router.js";
import { Copyable, Loaded, Status, Time, Title } from "../components/basics.js";
import { Graph } from "../components/graph.js";
import { Heartbeat } from "../components/heartbeat.js";
import { Value } from "../components/value.js";

/** @param {{ id: string, query: Record<string, string> }} props */
export function Page({ id, query }) {
  const workflow = useResource(`/api/workflows/${id}`);
  return html`<${Loaded} of=${workflow}>${(/** @type {any} */ found) => html`<${Workflow} workflow=${found} query=${query} />`}<//>`;
}

/** @param {{ workflow: any, query: Record<string, string> }} props */
function Workflow({ workflow, query }) {
  const runs = useResource("/api/workflows/runs", { workflow_id: workflow.id, limit: 40 }, ["run"]);
  const graph = useResource(`/api/workflows/${workflow.id}/versions/${workflow.version}/graph`);
  const step = workflow.steps.find((/** @type {any} */ one) => one.id === query.step);
  const beats = (runs.data?.runs ?? []).map((/** @type {any} */ run) => ({ state: run.status, title: `${run.status}, ${duration(run.duration_ms)}` }));
  return html`<${Title} kind="Workflow" name=${workflow.name}>
      <p><${Status} of=${workflow.status} /> version ${workflow.version} · begins by ${visible(workflow.trigger?.type ?? "")} · <a href=${`/app/runs?workflow_id=${workflow.id}`}>${count(workflow.runs_total)} runs</a> · last <${Time} at=${workflow.last_run_at} />${workflow.next_run_at && html` · next <${Time} at=${workflow.next_run_at} />`}</p>
      ${workflow.description && html`<p>${visible(workflow.description)}</p>`}
      <p><${Heartbeat} beats=${beats} /></p><//>
    ${workflow.warnings?.length > 0 && html`<ul class="problem">${workflow.warnings.map((/** @type {any} */ one) => html`<li><code>${visible(one.pointer ?? "")}</code> ${visible(one.message)}</li>`)}</ul>`}
    <div class="columns">
      <section aria-label="Graph"><${Loaded} of=${graph}>${(/** @type {any} */ found) => html`<${Graph} ...${found} chosen=${query.step} onChoose=${(/** @type {string} */ id) => setQuery({ step: id })} />`}<//></section>
      <aside>
        ${step ? html`<h2>${visible(step.id)} <span class="quiet">${visible(step.type)}</span></h2><${Value} of=${step} />` : html`<h2>Steps</h2><ul>${workflow.steps.slice(0, 200).map((/** @type {any} */ one) => html`<li key=${one.id}><button type="button" class="plain" onClick=${() => setQuery({ step: one.id })}>${named(one.name ?? one.id)}</button> <span class="quiet">${visible(one.type)}</span></li>`)}</ul>`}
        <h2>Post an event</h2>
        ${workflow.webhook_url ? html`<p class="quiet">Anyone with this address can start runs.</p><${Copyable} text=${`curl -s '${workflow.webhook_url}' -H 'Content-Type: application/json' -d '{"ip": "8.8.8.8"}'`} />` : html`<p class="quiet">This workflow has no address.</p>`}
        <h2>Last runs</h2>
        <${Loaded} of=${runs}>${(/** @type {any} */ found) => html`<ul>${found.runs.slice(0, 10).map((/** @type {any} */ run) => html`<li key=${run.id}><a href=${`/app/runs/${run.id}`}><${Status} of=${run.status} /></a> <${Time} at=${run.started_at} /> · ${duration(run.duration_ms)}</li>`)}</ul>`}<//>
      </aside>
    </div>`;
}
