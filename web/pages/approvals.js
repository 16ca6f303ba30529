// Runs that wait for somebody's answer.

import { html } from "../vendor/preact.js";
import { useResource } from "../resource.js";
import { named, visible } from "../format.js";
import { Empty, Loaded, Time } from "../components/basics.js";

export function Page() {
  const approvals = useResource("/api/workflows/approvals", { limit: 100 }, ["run", "approval"]);
  return html`<header class="title"><h1>Approvals</h1><p class="quiet">Runs that wait for an answer. Opening one changes nothing.</p></header>
    <${Loaded} of=${approvals}>${(/** @type {any} */ found) =>
      found.approvals.length
        ? html`<ul class="cards">${found.approvals.map(
            (/** @type {any} */ one) => html`<li class="card" key=${`${one.run_id}${one.step_id}`}>
              <h2>${named(one.title ?? one.step_id)}</h2>
              ${one.message && html`<p class="message">${visible(one.message).slice(0, 2000)}</p>`}
              <p class="quiet"><a href=${`/app/runs/${one.run_id}?step=${encodeURIComponent(one.step_id)}`}>${named(one.workflow_name)}</a> · asked <${Time} at=${one.asked_at} />${one.expires_at && html` · until <${Time} at=${one.expires_at} />`}</p>
              <p><a class="button primary" href=${new URL(one.resume_url, location.origin).pathname} target="_blank" rel="noopener">Answer</a></p></li>`,
          )}</ul>`
        : html`<${Empty} title="Nothing waits for you"><p>A <code>wait</code> step asks a person, and the run continues with the answer. <a href="/docs/workflows#wait" target="_blank">How to use it</a>.</p><//>`}<//>`;
}
