// The card of a call that waits for a decision: its real arguments, and what it would do.

import { html, useState } from "../vendor/preact.js";
import { post } from "../api.js";
import { count, visible } from "../format.js";
import { Problem, Status, Time } from "./basics.js";
import { Graph } from "./graph.js";
import { Value } from "./value.js";

const REASONS = /** @type {Record<string, string>} */ ({
  writes: "it writes", starts_or_replaces: "it starts, replaces or deletes something",
  outside_text: "the model has read text from outside, and this call can send", budget: "it may cost more than is left of the budget",
});

/** @param {{ card: any, path: string, decision: any }} props */
export function Approval({ card, path, decision }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [edited, setEdited] = useState(/** @type {string | null} */ (null));
  const decide = (/** @type {string} */ what) => {
    let given;
    try {
      given = edited === null || what === "deny" ? undefined : JSON.parse(edited);
    } catch (fault) {
      setError({ problem: { code: "invalid_json", detail: `The arguments are not JSON: ${/** @type {Error} */ (fault).message}` } });
      return;
    }
    const body = { decision: what, arguments_hash: card.arguments_hash, ...(given !== undefined && { arguments: given }) };
    post(`${path}/approvals/${card.id}`, body).then(() => setError(null), setError);
  };
  return html`<div class="card approval" role="group" aria-label=${`Approval: ${visible(card.title)}`}>
    <h3>${visible(card.title)} <code>${visible(card.tool)}</code></h3>
    <p class="quiet">It waits for your approval because ${card.reasons.map((/** @type {string} */ one) => REASONS[one] ?? visible(one)).join(", and ")}. ${card.credits_max === null ? "Its cost is not known in advance" : `It costs at most ${count(card.credits_max)} credits`}.${!decision && html` Until <${Time} at=${card.expires_at} />.`}</p>
    ${edited === null ? html`<${Value} of=${card.arguments} />` : html`<label>Arguments <textarea rows="10" spellcheck=${false} value=${edited} onInput=${(/** @type {any} */ event) => setEdited(event.target.value)}></textarea></label>`}
    <${Preview} of=${card.preview} />
    <${Problem} error=${error} />
    ${decision
      ? html`<p role="status">${decision.decision === "approve" ? `Approved${decision.arguments ? ", with other arguments" : ""}` : decision.decision === "deny" ? "Denied" : "Expired without a decision"}.</p>`
      : html`<div class="actions"><button type="button" class="primary" onClick=${() => decide("approve")}>Approve</button>
          <button type="button" onClick=${() => setEdited(edited === null ? JSON.stringify(card.arguments, null, 2) : null)}>${edited === null ? "Edit" : "Undo edits"}</button>
          <button type="button" onClick=${() => decide("deny")}>Deny</button></div>`}
  </div>`;
}

/** What the call would do. @param {{ of: any }} props */
function Preview({ of }) {
  return html`
    ${of.workflow && html`<p>Workflow: ${visible(of.workflow)}</p>`}
    ${of.diff?.length > 0 && html`<h4>What changes</h4><div class="scroll" tabindex="0"><table><thead><tr><th>Field</th><th>Now</th><th>Then</th></tr></thead><tbody>
      ${of.diff.map((/** @type {any} */ one) => html`<tr key=${one.field}><th scope="row">${visible(one.field)}</th><td class="old"><${Value} of=${one.old} depth=${1} /></td><td class="new"><${Value} of=${one.new} depth=${1} /></td></tr>`)}</tbody></table></div>`}
    ${of.graph && html`<${Graph} ...${of.graph} />`}
    ${of.warnings?.length > 0 && html`<ul>${of.warnings.map((/** @type {string} */ one) => html`<li key=${one}>${visible(one)}</li>`)}</ul>`}
    ${of.credits_per_run !== undefined && html`<p>Each run looks up ${count(of.targets)} targets, for at most ${count(of.credits_per_run)} credits.</p>`}
    ${of.next_runs?.length > 0 && html`<p>It runs next <${Time} at=${of.next_runs[0]} full />${of.next_runs[1] && html`, then <${Time} at=${of.next_runs[1]} full />`}.</p>`}
    ${of.dry_run && html`<h4>Tried on the event of <a href=${`/app/runs/${of.dry_run.run_id}`}>an earlier run</a>, without effect</h4>
      ${of.dry_run.error ? html`<p class="wrong">${visible(of.dry_run.error)}</p>` : html`<ul>${of.dry_run.steps.map((/** @type {any} */ step) => html`<li key=${step.id}><${Status} of=${step.status} /> ${visible(step.id)} ${step.error && html`<span class="wrong">${visible(step.error.message)}</span>`}</li>`)}</ul>`}`}`;
}
