// A row of small bars, the newest at the right: what became of the last runs.

import { html } from "../vendor/preact.js";

const MOST = 40;

/**
 * @param {{ beats: { state: string, title: string }[], column?: boolean }} props
 *   beats: the newest first; column: in a column of rows, whose newest bars stand one below the other
 */
export function Heartbeat({ beats, column = false }) {
  const shown = beats.slice(0, MOST).reverse();
  const failed = shown.filter((beat) => beat.state === "failed").length;
  const label = `The last ${shown.length}: ${failed} failed`;
  const wide = column ? MOST : shown.length;
  return html`<svg class="heartbeat" width=${wide * 7} height="22" role="img" aria-label=${label}>
    ${shown.map((beat, n) => {
      const tall = beat.state === "failed" ? 22 : beat.state === "changed" ? 18 : 12;
      return html`<rect key=${n} class=${`bar ${beat.state}`} x=${(wide - shown.length + n) * 7} y=${22 - tall} width="5" height=${tall}><title>${beat.title}</title></rect>`;
    })}
  </svg>`;
}
