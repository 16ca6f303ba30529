// Runs as points: when each began, how long it took, failures in their own shape. A stretch of time can be chosen.

import { html, useRef, useState } from "../vendor/preact.js";
import { duration, localTime, named } from "../format.js";
import { go } from "../router.js";

const WIDTH = 900;
const HEIGHT = 220;
const LEFT = 56;
const BOTTOM = 24;

/**
 * @param {{ runs: any[], onBrush: (since: string, until: string) => void }} props
 */
export function Scatter({ runs, onBrush }) {
  const [brush, setBrush] = useState(/** @type {[number, number] | null} */ (null));
  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  const points = runs.filter((run) => run.started_at);
  if (!points.length) return null;
  const times = points.map((run) => Date.parse(run.started_at));
  const first = Math.min(...times);
  const last = Math.max(...times, first + 1000);
  const longest = Math.max(...points.map((run) => run.duration_ms ?? 1), 100);
  // Both a call of 20 ms and a wait of two days should be seen: the scale is logarithmic.
  const y = (/** @type {number} */ ms) => HEIGHT - BOTTOM - (Math.log10(Math.max(ms, 1)) / Math.log10(longest * 1.3)) * (HEIGHT - BOTTOM - 12);
  const x = (/** @type {number} */ at) => LEFT + ((at - first) / (last - first)) * (WIDTH - LEFT - 12);
  const at = (/** @type {number} */ px) => first + ((px - LEFT) / (WIDTH - LEFT - 12)) * (last - first);
  const px = (/** @type {PointerEvent} */ event) => {
    const box = svg.current?.getBoundingClientRect();
    return box ? ((event.clientX - box.left) / box.width) * WIDTH : 0;
  };
  const finish = () => {
    if (brush && Math.abs(brush[1] - brush[0]) > 8) {
      const [from, to] = [...brush].sort((a, b) => a - b).map((edge) => new Date(at(edge)).toISOString());
      onBrush(from, to);
    }
    setBrush(null);
  };
  const steps = [1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000].filter((ms) => ms <= longest * 1.2);
  return html`<figure class="scatter">
    <svg ref=${svg} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Runs by the time they began and took; a table follows"
      onPointerDown=${(/** @type {PointerEvent} */ event) => setBrush([px(event), px(event)])}
      onPointerMove=${(/** @type {PointerEvent} */ event) => brush && setBrush([brush[0], px(event)])}
      onPointerUp=${finish} onPointerLeave=${() => setBrush(null)}>
      ${steps.map((ms) => html`<g key=${ms} class="grid"><line x1=${LEFT} x2=${WIDTH} y1=${y(ms)} y2=${y(ms)} /><text x=${LEFT - 6} y=${y(ms) + 4} text-anchor="end">${duration(ms)}</text></g>`)}
      ${[0, 0.5, 1].map((part) => html`<text key=${part} class="tick" x=${LEFT + part * (WIDTH - LEFT - 12)} y=${HEIGHT - 6} text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${localTime(new Date(first + part * (last - first)).toISOString())}</text>`)}
      ${points.map((run) => {
        const [cx, cy] = [x(Date.parse(run.started_at)), y(run.duration_ms ?? Date.now() - Date.parse(run.started_at))];
        const title = `${named(run.workflow_name)}: ${run.status}, ${duration(run.duration_ms)}`;
        const open = () => go(`/app/runs/${run.id}`);
        return run.status === "failed"
          ? html`<path key=${run.id} class="point failed" d=${`M${cx - 4},${cy - 4} l8,8 m0,-8 l-8,8`} onClick=${open}><title>${title}</title></path>`
          : html`<circle key=${run.id} class=${`point ${run.status}`} cx=${cx} cy=${cy} r="4" onClick=${open}><title>${title}</title></circle>`;
      })}
      ${brush && html`<rect class="brush" x=${Math.min(...brush)} width=${Math.abs(brush[1] - brush[0])} y="0" height=${HEIGHT - BOTTOM} />`}
    </svg>
    <figcaption class="quiet">The last ${points.length} runs: ● completed, ✕ failed. Drag over a stretch of time to list its runs.</figcaption>
  </figure>`;
}
