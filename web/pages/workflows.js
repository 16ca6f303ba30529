// All workflows.

import { html } from "../vendor/preact.js";
import { useResource } from "../resource.js";
import { count, named, visible } from "../format.js";
import { setQuery } from "../router.js";
import { Empty, Loaded, Status, Time } from "../components/basics.js";

const ROWS = 50;

/** @param {{ query: Record<string, string> }} props */
export function Page({ query }) {
  const page = Math.max(1, Number(query.page) || 1);
  const workflows = useResource("/api/workflows", { page, limit: ROWS }, ["run"]);
  return html`<header class="title"><h1>Workflows</h1></header>
    <${Loaded} of=${workflows}>${(/** @type {any} */ found) =>
      found.workflows.length
        ? html`<div class="scroll"><table>
            <thead><tr><th>Workflow</th><th>State</th><th>Trigger</th><th class="number">Runs</th><th>Last run</th><th>Next run</th></tr></thead>
            <tbody>${found.workflows.map(
              (/** @type {any} */ one) => html`<tr key=${one.id}><td><a href=${`/app/workflows/${one.id}`}>${named(one.name)}</a></td><td><${Status} of=${one.status} /></td>
                <td>${visible(one.trigger?.type ?? "")}</td><td class="number">${count(one.runs_total)}</td><td><${Time} at=${one.last_run_at} /></td><td><${Time} at=${one.next_run_at} /></td></tr>`,
            )}</tbody></table></div>
          <p class="pages">${page > 1 && html`<button type="button" onClick=${() => setQuery({ page: String(page - 1) })}>Before</button>`}
            ${page * ROWS < found.total && html`<button type="button" onClick=${() => setQuery({ page: String(page + 1) })}>Next</button>`} <span class="quiet">${count(found.total)} in all</span></p>`
        : html`<${Empty} title="No workflows yet"><p><a href="/docs/workflows" target="_blank">What a workflow is</a>; <a href="/docs/templates" target="_blank">templates</a> to begin with.</p><//>`}<//>`;
}
