// What the assistant writes, as text: headings, lists, code and emphasis. Nothing becomes HTML; no images are
// loaded, and a link shows its host.

import { html } from "../vendor/preact.js";
import { visible } from "../format.js";
import { Text } from "./basics.js";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*|!?\[[^\]\n]*\]\([^)\s]*\)|https?:\/\/[^\s<>")\]]+)/;

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  return html`${blocksOf(text).map((block, place) => html`<${Block} key=${place} ...${block} />`)}`;
}

/** @typedef {{ kind: "code" | "list" | "heading" | "text", lines: string[] }} Lines */

/** @param {string} text @returns {Lines[]} */
function blocksOf(text) {
  /** @type {Lines[]} */
  const blocks = [];
  let code = false;
  for (const line of text.split("\n")) {
    if (line.trimStart().startsWith("```")) {
      code = !code;
      if (code) blocks.push({ kind: "code", lines: [] });
      continue;
    }
    const kind = code ? "code" : /^\s*([-*]|\d+\.)\s/.test(line) ? "list" : /^#{1,6}\s/.test(line) ? "heading" : "text";
    const last = blocks.at(-1);
    const goes_on = last?.kind === kind && kind !== "heading" && (line.trim() || kind === "code");
    if (goes_on) last.lines.push(line);
    else if (line.trim() || code) blocks.push({ kind, lines: [line] });
    else blocks.push({ kind: "text", lines: [] });
  }
  return blocks.filter((block) => block.lines.length);
}

/** @param {Lines} props */
function Block({ kind, lines }) {
  if (kind === "code") return html`<pre class="code" tabindex="0">${visible(lines.join("\n"))}</pre>`;
  if (kind === "heading") return html`<p><strong><${Inline} text=${lines[0].replace(/^#+\s/, "")} /></strong></p>`;
  if (kind === "list") return html`<ul>${lines.map((line, place) => html`<li key=${place}><${Inline} text=${line.replace(/^\s*([-*]|\d+\.)\s/, "")} /></li>`)}</ul>`;
  return html`<p>${lines.map((line, place) => html`${place > 0 && html`<br />`}<${Inline} text=${line} />`)}</p>`;
}

/** @param {{ text: string }} props */
function Inline({ text }) {
  return html`${text.split(INLINE).map((part) => {
    if (part.startsWith("`") && part.length > 2) return html`<code>${visible(part.slice(1, -1))}</code>`;
    if (part.startsWith("**") && part.length > 4) return html`<strong>${visible(part.slice(2, -2))}</strong>`;
    const link = part.match(/^!?\[([^\]]*)\]\(([^)]*)\)$/);
    if (link) return html`${visible(link[1])} <${Text} text=${link[2]} />`;
    return /^https?:/.test(part) ? html`<${Text} text=${part} />` : visible(part);
  })}`;
}
