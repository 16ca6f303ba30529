// A row of small bars, the newest at the right: what became of the last runs.

import { html } from "../vendor/preact.js";

const MOST = 40;

/** @param {{ beats: { state: string, title: string, href?: string }[] }} props newest first */
export function Heartbeat({ beats }) {
  const shown = beats.slice(0, MOST).reverse();
  const failed = shown.filter((beat) => beat.state === "failed").length;
  const label = `The last ${shown.length}: ${failed} failed`;
  return html`<svg class="heartbeat" width=${MOST * 7} height="22" role="img" aria-label=${label}>
    ${shown.map((beat, n) => {
      const tall = beat.state === "failed" ? 22 : beat.state === "changed" ? 18 : 12;
      return html`<rect key=${n} class=${`bar ${beat.state}`} x=${(MOST - shown.length + n) * 7} y=${22 - tall} width="5" height=${tall}><title>${beat.title}</title></rect>`;
    })}
  </svg>`;
}
