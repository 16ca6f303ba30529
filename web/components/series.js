// Numbers over time, drawn by uPlot; the table behind the picture has the same.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { uPlot } from "../vendor/uplot.js";
import { count, localTime, shortTime } from "../format.js";

const HEIGHT = 150;
const ROWS = 400;
const dark = matchMedia("(prefers-color-scheme: dark)");

/** @typedef {{ at: string, value: number }} Point */

/**
 * @param {{ label: string, unit: string, points: Point[], colour: string, bars?: boolean }} props
 *   points: the oldest first; colour: the name of a variable of the style sheet;
 *   bars: each point counts what was in its time, and does not last until the next one
 */
export function Series({ label, unit, points, colour, bars = false }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [read, setRead] = useState(/** @type {Point | null} */ (null));
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const data = [points.map((one) => Date.parse(one.at) / 1000), points.map((one) => one.value)];
    const show = (/** @type {uPlot} */ plot) => setRead(points[plot.cursor.idx ?? -1] ?? null);
    const make = () => new uPlot({ width: element.clientWidth, height: HEIGHT, ...optionsOf(colour, bars, show) }, data, element);
    let plot = make();
    const redraw = () => {
      plot.destroy();
      plot = make();
    };
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    dark.addEventListener("change", redraw);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", redraw);
      plot.destroy();
    };
  }, [JSON.stringify([points, colour, bars])]);
  const total = points.reduce((sum, one) => sum + one.value, 0);
  const gist = bars ? `${count(total)} ${unit}` : `from ${count(points[0]?.value)} to ${count(points.at(-1)?.value)} ${unit}`;
  return html`<figure class="series">
    <figcaption>${label}: ${gist} <span class="quiet">${read && `· ${localTime(read.at)}: ${count(read.value)}`}</span></figcaption>
    <div ref=${place} role="img" aria-label=${`${label}: ${gist}; a table follows`}></div>
    <details><summary>As a table</summary>
      <table><thead><tr><th>When</th><th class="number">${unit}</th></tr></thead>
        <tbody>${points.slice(-ROWS).map((one, n) => html`<tr key=${n}><td>${localTime(one.at)}</td><td class="number">${count(one.value)}</td></tr>`)}</tbody></table>
    </details></figure>`;
}

/** @param {uPlot} _plot @param {number[]} ticks @param {number} _axis @param {number} _space @param {number} step seconds */
const showTimes = (_plot, ticks, _axis, _space, step) => ticks.map((tick) => shortTime(tick, step));

/** @param {string} colour @param {boolean} bars @param {(plot: uPlot) => void} show */
function optionsOf(colour, bars, show) {
  const style = getComputedStyle(document.documentElement);
  const ink = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const axis = { stroke: ink("--quiet"), grid: { stroke: ink("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    hooks: { setCursor: [show] },
    scales: { y: { range: (/** @type {uPlot} */ _, /** @type {number} */ least, /** @type {number} */ most) => [bars ? 0 : least - 1, Math.max(most, least + 1) + (bars ? 0 : 1)] } },
    axes: [{ ...axis, values: showTimes }, { ...axis, size: bars ? 45 : 70, incrs: [1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1_000_000], values: (/** @type {uPlot} */ _, /** @type {number[]} */ ticks) => ticks.map(count) }],
    series: [{}, { stroke: ink(colour), width: bars ? 0 : 2, fill: bars ? ink(colour) : undefined, points: { show: false },
      paths: bars ? uPlot.paths.bars({ size: [0.8, 40] }) : uPlot.paths.stepped({ align: 1 }) }],
  };
}
