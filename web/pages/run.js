// One run: what it did when, why it failed, and doing it again.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get, post } from "../api.js";
import { useResource } from "../resource.js";
import { duration, named, visible } from "../format.js";
import { go, setQuery } from "../router.js";
import { Loaded, Problem, Status, Time, Title } from "../components/basics.js";
import { Dialog } from "../components/dialog.js";
import { Graph } from "../components/graph.js";
import { Value } from "../components/value.js";
import { Waterfall } from "../components/waterfall.js";

const ENDED = ["completed", "failed", "cancelled"];
const STEPS = 200;
const ITEMS = 50;

/** @param {{ id: string, query: Record<string, string> }} props */
export function Page({ id, query }) {
  const run = useResource(`/api/workflows/runs/${id}`, {}, ["run"]);
  return html`<${Loaded} of=${run}>${(/** @type {any} */ found) => html`<${Run} run=${found} query=${query} reload=${run.reload} />`}<//>`;
}

/** @param {{ run: any, query: Record<string, string>, reload: () => void }} props */
function Run({ run, query, reload }) {
  const ended = ENDED.includes(run.status);
  const now = useNow(!ended);
  const failed = run.steps.find((/** @type {any} */ step) => step.status === "failed");
  const chosen = query.step ?? failed?.id ?? run.steps[0]?.id;
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const cancel = () => post(`/api/workflows/runs/${run.id}/cancel`).then(reload, setError);
  const step = run.steps.find((/** @type {any} */ one) => one.id === chosen);
  return html`<${Title} kind="Run of" name=${run.workflow_name}>
      <p><${Status} of=${run.status} /> ${run.test && html`<span class="chip">test</span>`} began <${Time} at=${run.started_at} full /> · took ${duration(run.duration_ms)} · ${visible(run.trigger)} ·${" "}
        <a href=${`/app/workflows/${run.workflow_id}`}>workflow, version ${run.workflow_version}</a> · ${run.credits_used} credits ${run.carrier && html`· carrier: ${visible(run.carrier)}`}
        ${run.parent_run_id && html` · started by <a href=${`/app/runs/${run.parent_run_id}`}>another run</a>`}
        ${run.restarted_from && html` · repeats <a href=${`/app/runs/${run.restarted_from}`}>an earlier run</a>`}</p>
      <p class="actions">
        ${ended ? html`<button type="button" class="primary" onClick=${() => setAsking(true)}>Retry …</button>` : html`<button type="button" onClick=${cancel}>Cancel the run</button>`}
        <span role="group" aria-label="View">
          <button type="button" aria-pressed=${query.view !== "graph"} onClick=${() => setQuery({ view: undefined })}>Over time</button>
          <button type="button" aria-pressed=${query.view === "graph"} onClick=${() => setQuery({ view: "graph" })}>Graph</button></span></p>
    <//>
    <${Problem} error=${error} />
    ${run.error && html`<div class="problem"><p><strong>${visible(run.error.message)}</strong></p><p class="quiet"><a href=${`/errors/${encodeURIComponent(run.error.code)}`} target="_blank">${visible(run.error.code)}: what to do</a> · <a href=${`/app/runs?error_code=${encodeURIComponent(run.error.code)}`}>runs with the same cause</a></p></div>`}
    <div class="columns">
      <section aria-label="Steps">
        ${query.view === "graph" ? html`<${RunGraph} run=${run} chosen=${chosen} />` : html`<${Waterfall} run=${{ ...run, steps: run.steps.slice(0, STEPS) }} chosen=${chosen} onChoose=${(/** @type {string} */ to) => setQuery({ step: to })} now=${now} />`}
        <h2>Input</h2><${Value} of=${run.input} />
        ${run.output !== undefined && run.output !== null && html`<h2>Output</h2><${Value} of=${run.output} />`}
        <${Children} id=${run.id} />
      </section>
      <aside aria-label="The chosen step">${step ? html`<${Step} step=${step} run=${run} key=${step.id} />` : html`<p class="quiet">No step has begun.</p>`}</aside>
    </div>
    ${asking && html`<${Retry} run=${run} failed=${failed} onClose=${() => setAsking(false)} />`}`;
}

/** @param {boolean} ticking */
function useNow(ticking) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}

/** @param {{ run: any, chosen: string }} props */
function RunGraph({ run, chosen }) {
  const graph = useResource(`/api/workflows/${run.workflow_id}/versions/${run.workflow_version}/graph`);
  const states = new Map(run.steps.map((/** @type {any} */ step) => [step.id, step.status]));
  return html`<${Loaded} of=${graph}>${(/** @type {any} */ found) => html`<${Graph} ...${found} states=${states} chosen=${chosen} onChoose=${(/** @type {string} */ id) => setQuery({ step: id })} />`}<//>`;
}

/** @param {{ step: any, run: any }} props */
function Step({ step, run }) {
  return html`<h2>${visible(step.id)} <span class="quiet">${visible(step.type)}</span></h2>
    <p><${Status} of=${step.status} /> ${duration(step.duration_ms)} · ${step.attempts} ${step.attempts === 1 ? "attempt" : "attempts"}${step.mocked ? " · mocked" : ""}</p>
    ${step.error && html`<div class="problem"><p><strong>${visible(step.error.message)}</strong></p><p class="quiet"><a href=${`/errors/${encodeURIComponent(step.error.code)}`} target="_blank">${visible(step.error.code)}: what to do</a></p></div>`}
    ${step.attempt_log?.length > 0 && html`<h3>Earlier attempts</h3><ol>${step.attempt_log.slice(-20).map((/** @type {any} */ one) => html`<li key=${one.attempt}><${Time} at=${one.at} />${one.started_at && ` after ${duration(Date.parse(one.ended_at) - Date.parse(one.started_at))}`}: <code>${visible(one.error?.code ?? "")}</code> ${visible(one.error?.message ?? "")}</li>`)}</ol>`}
    ${step.items_total !== null && step.items_total !== undefined && html`<${Items} run=${run} step=${step} />`}
    <h3>Input</h3><${Value} of=${step.input} />
    <h3>Output</h3><${Value} of=${step.output} />`;
}

/** Read the first fifty items, or failed items: these may stand far behind. @param {string} path @param {boolean} onlyFailed */
async function readItems(path, onlyFailed) {
  /** @type {any[]} */
  const found = [];
  let cursor = null;
  do {
    const page = await get(path, { limit: 100, cursor });
    found.push(...page.items.filter((/** @type {any} */ one) => !onlyFailed || one.status === "failed"));
    cursor = page.next_cursor;
  } while (cursor && found.length < ITEMS);
  return found.slice(0, ITEMS);
}

/** @param {{ run: any, step: any }} props */
function Items({ run, step }) {
  const [onlyFailed, setOnlyFailed] = useState(step.items_failed > 0);
  const [items, setItems] = useState(/** @type {any} */ ({ data: null, error: null, loading: true, reload: () => {} }));
  const path = `/api/workflows/runs/${run.id}/steps/${encodeURIComponent(step.id)}/items`;
  useEffect(() => {
    let current = true;
    const show = (/** @type {any} */ data, /** @type {any} */ error) => current && setItems({ data, error, loading: false, reload: () => setOnlyFailed(onlyFailed) });
    readItems(path, onlyFailed).then((data) => show(data, null), (error) => show(null, error));
    return () => {
      current = false;
    };
  }, [path, onlyFailed, step.status]);
  return html`<h3>Items</h3><p>${step.items_total} in all, ${step.items_failed ?? 0} failed; at most ${ITEMS} are shown.
      <label><input type="checkbox" checked=${onlyFailed} onChange=${() => setOnlyFailed(!onlyFailed)} /> only failed</label></p>
    <${Loaded} of=${items}>${(/** @type {any[]} */ found) => html`<ul class="items">${found.map((one) => html`<li key=${one.item}><${Status} of=${one.status} /> item ${one.item} ${one.error ? visible(one.error.message ?? one.error.code) : ""}</li>`)}</ul>`}<//>`;
}

/** @param {{ id: string }} props */
function Children({ id }) {
  const children = useResource("/api/workflows/runs", { parent_run_id: id, limit: 50 }, ["run"]);
  if (!children.data?.runs?.length) return null;
  return html`<h2>Runs that it started</h2><ul>${children.data.runs.map((/** @type {any} */ run) => html`<li key=${run.id}><${Unfolding} run=${run} /></li>`)}</ul>`;
}

/** A run that is read when somebody opens it. @param {{ run: any }} props */
function Unfolding({ run }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary><${Status} of=${run.status} /> ${named(run.workflow_name)} <span class="quiet">${duration(run.duration_ms)}</span></summary>
    ${open && html`<${Child} id=${run.id} /><p><a href=${`/app/runs/${run.id}`}>To this run</a></p>`}</details>`;
}

/** @param {{ id: string }} props */
function Child({ id }) {
  const run = useResource(`/api/workflows/runs/${id}`, {}, ["run"]);
  const now = useNow(false);
  return html`<${Loaded} of=${run}>${(/** @type {any} */ found) => html`<${Waterfall} run=${{ ...found, steps: found.steps.slice(0, STEPS) }} chosen=${undefined} onChoose=${(/** @type {string} */ step) => go(`/app/runs/${id}?step=${step}`)} now=${now} />`}<//>`;
}

/** @param {{ run: any, failed: any, onClose: () => void }} props */
function Retry({ run, failed, onClose }) {
  const workflow = useResource(`/api/workflows/${run.workflow_id}`);
  const [error, setError] = useState(/** @type {any} */ (null));
  const newest = workflow.data?.version;
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const [from, version, text] = ["from", "version", "input"].map((name) => String(form.get(name) ?? ""));
    try {
      let made;
      if (from === "input") made = await post(`/api/workflows/${run.workflow_id}/run`, { input: JSON.parse(text) });
      else made = await post(`/api/workflows/runs/${run.id}/retry`, { ...(from && { from_step: from }), ...(version === "newest" && { version: newest }) });
      go(`/app/runs/${made.run_id ?? made.id}`);
    } catch (refusal) {
      setError(refusal instanceof SyntaxError ? { problem: { code: "invalid_json", detail: `The input is not JSON: ${refusal.message}` } } : refusal);
    }
  };
  const [from, setFrom] = useState(failed ? "" : run.steps[0]?.id ?? "");
  return html`<${Dialog} title="Run it again" onClose=${onClose}><form onSubmit=${submit}>
    <label>From <select name="from" value=${from} onChange=${(/** @type {any} */ event) => setFrom(event.target.value)}>
      ${failed && html`<option value="">the failed step (${visible(failed.id)}); completed steps are not repeated</option>`}
      ${run.steps.map((/** @type {any} */ step) => html`<option key=${step.id} value=${step.id}>step ${visible(step.id)}</option>`)}
      <option value="input">the beginning, as a new run with this input</option></select></label>
    ${from === "input"
      ? html`<label>Input <textarea name="input" rows="10" spellcheck=${false} defaultValue=${JSON.stringify(run.input, null, 2)}></textarea></label>`
      : html`<label>By <select name="version"><option value="same">the same version (${run.workflow_version})</option>${newest > run.workflow_version && html`<option value="newest">the newest version (${newest})</option>`}</select></label>`}
    <p class="quiet">Repeated steps send their requests again.</p>
    <${Problem} error=${error} />
    <div class="actions"><button type="submit" class="primary">Run it</button></div></form><//>`;
}
