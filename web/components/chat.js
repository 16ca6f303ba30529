// A conversation with the assistant: on its page, and beside a run, a monitor, a lookup or a workflow.

import { html, useEffect, useState } from "../vendor/preact.js";
import { call, post } from "../api.js";
import { useResource } from "../resource.js";
import { count, visible } from "../format.js";
import { Empty, Loaded, Problem, Status, Time } from "./basics.js";
import { Approval } from "./approval.js";
import { Markdown } from "./markdown.js";

const CHAT = "/api/chat";
const KINDS = ["text", "tool", "result", "approval", "decision", "usage", "answer"];

/**
 * The conversation with this id, or a new one.
 *
 * @param {{ id?: string, about?: { kind: string, id: string } | null, onBegin?: (id: string) => void }} props
 */
export function Chat({ id, about, onBegin }) {
  const state = useResource(CHAT);
  return html`<${Loaded} of=${state}>${(/** @type {any} */ found) => {
    if (!found.enabled) return html`<${Empty} title="No model is set up"><p>${visible(found.how)}</p><p><a href="/docs/assistant#set-it-up" target="_blank">How to set one up</a></p><//>`;
    if (!found.agreed_at) return html`<${Consent} state=${found} onAgreed=${state.reload} />`;
    return html`<${Conversation} key=${id ?? "new"} id=${id} about=${about} onBegin=${onBegin} />`;
  }}<//>`;
}

/** @param {{ state: any, onAgreed: () => void }} props */
function Consent({ state, onAgreed }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const agree = () => call("PUT", `${CHAT}/consent`, { host: state.host }).then(onAgreed, setError);
  return html`<div class="empty"><h2>Before you begin</h2>
    <p>The assistant sends what it reads for you, including targets' data, to the model <strong>${visible(state.model)}</strong> at <strong>${visible(state.host)}</strong>. Your operator chose this model. Nothing is sent before you agree.</p>
    <${Problem} error=${error} />
    <button type="button" class="primary" onClick=${agree}>Agree to ${visible(state.host)}</button></div>`;
}

/** @param {{ id?: string, about?: { kind: string, id: string } | null, onBegin?: (id: string) => void }} props */
function Conversation({ id, about, onBegin }) {
  const [begun, setBegun] = useState(id);
  const [sent, setSent] = useState(/** @type {any[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const before = useResource(id ? `${CHAT}/conversations/${id}` : null);
  const path = `${CHAT}/conversations/${begun}`;
  const messages = [...(before.data?.messages ?? [])].reverse();
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const text = String(new FormData(form).get("text") ?? "").trim();
    if (!text) return;
    setBusy(true);
    try {
      const to = begun ?? (await post(`${CHAT}/conversations`, {})).id;
      const message = await post(`${CHAT}/conversations/${to}/messages`, { text, ...(about && { about }) });
      form.reset();
      setError(null);
      setBegun(to);
      setSent([...sent, message]);
      onBegin?.(to);
    } catch (refusal) {
      setError(refusal);
    }
    setBusy(false);
  };
  if (id && !before.data) return html`<${Loaded} of=${before}>${() => null}<//>`;
  const known = new Set(messages.map((one) => one.id));
  const all = [...messages, ...sent.filter((one) => !known.has(one.id))];
  return html`<div class="chat">
    ${before.data?.tainted && html`<p class="quiet">The model has read text from outside. Lookups, and calls that send something, wait for your approval.</p>`}
    <ol class="messages">${all.map((one) => html`<${Message} key=${one.id} message=${one} path=${path} />`)}</ol>
    <${Problem} error=${error} />
    <form onSubmit=${submit}><label class="ask"><span class="sr-only">Your message</span>
        <textarea name="text" rows="3" maxlength="8000" placeholder=${about ? `Ask about this ${about.kind}` : "Ask in words"} onKeyDown=${sendByEnter}></textarea></label>
      <div class="actions"><button type="submit" class="primary" disabled=${busy}>Send</button></div></form></div>`;
}

/** @param {KeyboardEvent} event */
function sendByEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
}

/** A message and its answer, live or as it was. @param {{ message: any, path: string }} props */
function Message({ message, path }) {
  const [events, setEvents] = useState(/** @type {any[]} */ ([]));
  const [ended, setEnded] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const own = `${path}/messages/${message.id}`;
  useEffect(() => {
    const source = new EventSource(`${own}/events`);
    for (const kind of KINDS)
      source.addEventListener(kind, (event) => setEvents((/** @type {any[]} */ before) => [...before, { kind, data: JSON.parse(event.data) }]));
    source.addEventListener("end", (event) => {
      source.close();
      setEnded(JSON.parse(event.data));
    });
    return () => source.close();
  }, [own]);
  const cancel = () => post(`${own}/cancel`).then(() => setError(null), setError);
  return html`<li><p class="mine"><span class="sr-only">You: </span>${visible(message.text)}</p>
    <div class="answer" aria-live="polite">${piecesOf(events).map((piece, place) => html`<${Piece} key=${place} piece=${piece} path=${path} />`)}</div>
    <${Problem} error=${error} />
    ${ended
      ? html`<p class="quiet"><${Status} of=${ended.status} />${ended.reason ? `: ${visible(ended.reason).replaceAll("_", " ")}` : ""} · ${count(ended.tokens)} tokens · ${count(ended.credits)} credits · <${Time} at=${ended.completed_at} /></p>`
      : html`<p><span class="quiet">Answering …</span> <button type="button" class="plain" onClick=${cancel}>Stop</button></p>`}</li>`;
}

/**
 * What is shown of the events: the cited lines take the place of the text that they are of.
 *
 * @param {any[]} events @returns {any[]}
 */
function piecesOf(events) {
  const decisions = new Map(events.filter((one) => one.kind === "decision").map((one) => [one.data.id, one.data]));
  const results = new Map(events.filter((one) => one.kind === "result").map((one) => [one.data.call_id, one.data]));
  /** @type {any[]} */
  const pieces = [];
  for (const { kind, data } of events) {
    const last = pieces.at(-1);
    if (kind === "text" && last?.kind === "text") last.text += data.text;
    else if (kind === "text") pieces.push({ kind, text: data.text });
    else if (kind === "tool") pieces.push({ kind, data, result: results.get(data.call_id) });
    else if (kind === "approval") pieces.push({ kind, data, decision: decisions.get(data.id) });
    else if (kind === "answer" && data.text) {
      if (last?.kind === "text") pieces.pop();
      pieces.push({ kind, data });
    }
  }
  return pieces;
}

/** @param {{ piece: any, path: string }} props */
function Piece({ piece, path }) {
  if (piece.kind === "text") return html`<${Markdown} text=${piece.text} />`;
  if (piece.kind === "approval") return html`<${Approval} card=${piece.data} path=${path} decision=${piece.decision} />`;
  if (piece.kind === "answer") return html`<${Answer} of=${piece.data} />`;
  const state = !piece.result ? "running" : piece.result.refused ? "failed" : "completed";
  return html`<p class="quiet"><${Status} of=${state} /> ${visible(piece.data.title)} <code>${visible(JSON.stringify(piece.data.arguments)).slice(0, 200)}</code></p>`;
}

/** The whole answer, and below it where its facts are from. @param {{ of: any }} props */
function Answer({ of }) {
  const cited = of.lines.flatMap((/** @type {any} */ line) => line.citations);
  const bare = of.lines.filter((/** @type {any} */ line) => line.unsourced);
  return html`<${Markdown} text=${of.text} />
    ${cited.length > 0 && html`<details><summary>${cited.length} ${cited.length === 1 ? "source" : "sources"}</summary><ul>${cited.map((/** @type {any} */ one, /** @type {number} */ place) => html`<li key=${place}><code>${visible(`[${one.result}${one.field ? ` ${one.field}` : ""}]`)}</code> ${one.known ? html`${visible(one.source)}, <${Time} at=${one.at} />` : html`<span class="wrong">no such source</span>`}</li>`)}</ul></details>`}
    ${bare.length > 0 && html`<div class="unsourced"><p>Without a source:</p><ul>${bare.map((/** @type {any} */ line, /** @type {number} */ place) => html`<li key=${place}>${visible(line.text)}</li>`)}</ul></div>`}`;
}
