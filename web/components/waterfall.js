// A run over time: what it waited in the queue, a bar for each attempt of each step, waits as bars of their own.

import { html } from "../vendor/preact.js";
import { duration, named, visible } from "../format.js";
import { Status } from "./basics.js";

const LEAST = 0.4; // percent: a bar that is shorter would not be seen

/** @typedef {{ from: number, to: number, kind: string, title: string }} Bar */

/** @param {any} step @param {number} now @returns {Bar[]} */
function barsOf(step, now) {
  if (!step.started_at) return [];
  const begin = Date.parse(step.started_at);
  const end = step.completed_at ? Date.parse(step.completed_at) : now;
  const waits = step.type === "delay" || step.type === "wait" || step.status === "waiting";
  /** @type {Bar[]} */
  const bars = [];
  let from = begin;
  const log = step.attempt_log ?? [];
  log.forEach((/** @type {any} */ failed, /** @type {number} */ index) => {
    const within = (/** @type {string | null | undefined} */ at, /** @type {number} */ otherwise) => (at ? Math.min(Math.max(Date.parse(at), from), end) : otherwise);
    from = within(failed.started_at, from);
    const to = within(failed.ended_at, from);
    bars.push({ from, to, kind: "failed", title: `attempt ${failed.attempt}: ${visible(failed.error?.message ?? "failed")}` });
    from = to;
    // Runs of earlier releases have no times of attempts: what follows is drawn as the next attempt.
    if (!failed.next_attempt_at) return;
    const next = index + 1 < log.length ? log[index + 1].started_at : step.attempt_started_at;
    const begun = within(next, end);
    if (begun > to) bars.push({ from: to, to: begun, kind: "waiting", title: `waits for attempt ${failed.attempt + 1}: ${duration(begun - to)}` });
    from = begun;
  });
  if (log.length > 0 && from >= end && step.attempt_started_at === null) return bars;
  const what = waits ? "waits" : log.length > 0 ? `attempt ${log.length + 1}` : "works";
  bars.push({ from, to: end, kind: waits ? "waiting" : step.status, title: `${what}: ${duration(end - from)}` });
  return bars;
}

/**
 * @param {{ run: any, chosen: string | undefined, onChoose: (id: string) => void, now: number }} props
 */
export function Waterfall({ run, chosen, onChoose, now }) {
  const times = [run.queued_at, run.started_at, ...run.steps.map((/** @type {any} */ step) => step.started_at)].filter(Boolean).map(Date.parse);
  const begin = times.length ? Math.min(...times) : now;
  const end = run.completed_at ? Date.parse(run.completed_at) : now;
  const span = Math.max(end - begin, 1);
  const place = (/** @type {Bar} */ bar) => {
    const x = ((bar.from - begin) / span) * 100;
    const width = Math.max(((bar.to - bar.from) / span) * 100, LEAST);
    return { x: `${Math.min(x, 100 - LEAST)}%`, width: `${Math.min(width, 100 - Math.min(x, 100 - LEAST))}%` };
  };
  const first = run.started_at ? Date.parse(run.started_at) : begin;
  const queued = /** @type {Bar} */ ({ from: begin, to: run.started_at ? first : end, kind: "queued", title: "in the queue" });
  return html`<div class="waterfall" role="group" aria-label="Steps over time">
    ${queued.to - queued.from > 5 &&
    html`<div class="row"><span class="label quiet">in the queue</span>
      <svg aria-hidden="true"><rect class="bar queued" ...${place(queued)} y="25%" height="50%"><title>${queued.title}</title></rect></svg>
      <span class="quiet number">${duration(queued.to - queued.from)}</span></div>`}
    ${run.steps.map((/** @type {any} */ step) => {
      const bars = barsOf(step, now);
      const items = step.items_total ? ` · ${step.items_total} items${step.items_failed ? `, ${step.items_failed} failed` : ""}` : "";
      return html`<div class=${`row ${chosen === step.id ? "chosen" : ""}`} key=${step.id}>
        <button type="button" class="label" aria-pressed=${chosen === step.id} onClick=${() => onChoose(step.id)}>
          <span>${named(step.name ?? step.id)}</span> <span class="quiet">${visible(step.type)}${items}</span>
        </button>
        <svg aria-hidden="true">${bars.map((bar) => html`<rect class=${`bar ${bar.kind}`} ...${place(bar)} y="20%" height="60%"><title>${bar.title}</title></rect>`)}</svg>
        <span class="number"><${Status} of=${step.status} /> <span class="quiet">${bars.length ? duration(step.duration_ms ?? end - bars[0].from) : ""}</span></span>
      </div>`;
    })}
    <p class="quiet axis"><span>0</span><span>${duration(span / 2)}</span><span>${duration(span)}</span></p>
  </div>`;
}
