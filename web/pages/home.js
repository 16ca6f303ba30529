// What happened lately, and what waits for somebody.

import { html } from "../vendor/preact.js";
import { useResource } from "../resource.js";
import { count, duration, named } from "../format.js";
import { go } from "../router.js";
import { Copyable, Empty, Loaded, Status, Time } from "../components/basics.js";
import { Scatter } from "../components/scatter.js";

const RUNS = 100;

export function Page() {
  const runs = useResource("/api/workflows/runs", { limit: RUNS }, ["run"]);
  return html`<h1 class="sr-only">Home</h1>
    <div class="columns wide-first">
      <section aria-label="Runs">
        <${Loaded} of=${runs}>${(/** @type {any} */ found) => (found.runs.length ? html`<${Lately} runs=${found.runs} total=${found.total} />` : html`<${First} />`)}<//>
      </section>
      <aside aria-label="Needs you"><${NeedsYou} /></aside>
    </div>`;
}

/** @param {{ runs: any[], total: number }} props */
function Lately({ runs, total }) {
  const failed = runs.filter((run) => run.status === "failed").length;
  const brush = (/** @type {string} */ since, /** @type {string} */ until) => go(`/app/runs?since=${since}&until=${until}`);
  return html`<h2>Runs</h2>
    <${Scatter} runs=${runs} onBrush=${brush} />
    <p>${count(failed)} of the last ${count(runs.length)} failed. <a href="/app/runs">All ${count(total)} runs</a> · <a href="/app/errors">Errors by cause</a></p>
    <div class="scroll"><table><caption class="sr-only">The newest runs</caption>
      <thead><tr><th>Workflow</th><th>State</th><th>Began</th><th class="number">Took</th></tr></thead>
      <tbody>${runs.slice(0, 10).map(
        (run) => html`<tr key=${run.id}><td><a href=${`/app/runs/${run.id}`}>${named(run.workflow_name)}</a></td>
          <td><${Status} of=${run.status} /></td><td><${Time} at=${run.started_at} /></td><td class="number">${duration(run.duration_ms)}</td></tr>`,
      )}</tbody></table></div>`;
}

function First() {
  return html`<${Empty} title="No runs yet">
    <p>A workflow runs once for each event that is posted to it. This command creates one. It needs a key: make one under <a href="/app/account">Account</a>.</p>
    <${Copyable} text=${`curl -s ${location.origin}/api/workflows -H "Authorization: Bearer $VEDETTE_API_KEY" \\
  -H 'Content-Type: application/json' -d '{
    "name": "Score a visitor",
    "steps": [
      {"id": "visitor", "type": "ip_lookup", "config": {"field": "trigger.ip"}},
      {"id": "score", "type": "transform", "config": {"expression": "visitor.security.is_tor && \`90\` || \`10\`"}}
    ]}'`} />
    <p>Then open it under <a href="/app/workflows">Workflows</a>: its page shows the address for events.</p>
  <//>`;
}

function NeedsYou() {
  const approvals = useResource("/api/workflows/approvals", { limit: 5 }, ["run", "approval"]);
  const failed = useResource("/api/workflows/runs", { status: "failed", limit: 50 }, ["run"]);
  const credits = useResource("/api/credits", {}, []);
  const webhooks = useResource("/api/webhooks", {}, []);
  const providers = useResource("/api/providers", {}, []);
  /** @type {any[]} */
  const items = [];
  for (const one of approvals.data?.approvals ?? [])
    items.push(html`<li key=${`a${one.run_id}${one.step_id}`}><${Status} of="waiting" /> <a href="/app/approvals">${named(one.title ?? one.workflow_name)}</a><br /><span class="quiet">asked <${Time} at=${one.asked_at} /></span></li>`);
  /** @type {Map<string, { name: string, runs: number, id: string }>} */
  const workflows = new Map();
  for (const run of failed.data?.runs ?? []) {
    const found = workflows.get(run.workflow_id) ?? { name: run.workflow_name, runs: 0, id: run.workflow_id };
    found.runs += 1;
    workflows.set(run.workflow_id, found);
  }
  for (const one of [...workflows.values()].sort((a, b) => b.runs - a.runs).slice(0, 5))
    items.push(html`<li key=${`f${one.id}`}><${Status} of="failed" /> <a href=${`/app/runs?workflow_id=${one.id}&status=failed`}>${named(one.name)}</a><br /><span class="quiet">${one.runs} of the last failed runs</span></li>`);
  for (const one of webhooks.data?.webhooks ?? [])
    if (one.disabled_reason) items.push(html`<li key=${`w${one.id}`}><${Status} of="disabled" /> ${named(one.url)}<br /><span class="quiet">${named(one.disabled_reason)}</span></li>`);
  for (const one of providers.data?.providers ?? [])
    if (one.state === "cooling_down") items.push(html`<li key=${`p${one.name}${one.kind}`}><${Status} of="failed" /> source ${named(one.name)}<br /><span class="quiet">${named(one.reason)}</span></li>`);
  const balance = credits.data;
  if (balance && balance.balance <= balance.low_balance_threshold) items.push(html`<li key="c"><${Status} of="failed" /> <a href="/app/account">${count(balance.balance)} credits left</a></li>`);
  return html`<h2>Needs you</h2>${items.length ? html`<ul class="needs">${items}</ul>` : html`<p class="quiet">Nothing. This list shows approvals, failing workflows, and sources and webhooks that are down.</p>`}`;
}
