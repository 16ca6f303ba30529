// The steps of a workflow as a graph, laid out from top to bottom; beside it stands the same as a table.

import { html, useMemo } from "../vendor/preact.js";
import { graphlib, layout } from "../vendor/dagre.js";
import { named, visible } from "../format.js";

const WIDTH = 190;
const HEIGHT = 46;

/** @typedef {{ id: string, type: string, name?: string }} GraphNode */
/** @typedef {{ from: string, to: string, label?: string | null }} GraphEdge */

/**
 * @param {{ nodes: GraphNode[], edges: GraphEdge[], states?: Map<string, string>, chosen?: string, onChoose?: (id: string) => void }} props
 */
export function Graph({ nodes, edges, states = new Map(), chosen, onChoose }) {
  const drawn = useMemo(() => place(nodes, edges), [JSON.stringify([nodes, edges])]);
  const short = (/** @type {string} */ text) => (text.length > 24 ? `${text.slice(0, 23)}…` : text);
  return html`<figure class="graph">
    <svg viewBox=${`0 0 ${drawn.width} ${drawn.height}`} width=${drawn.width} height=${drawn.height} role="img" aria-label="Graph of the steps">
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
      ${drawn.edges.map((/** @type {any} */ edge) => html`<g key=${edge.key} class="edge"><path d=${edge.path} marker-end="url(#arrow)" />${edge.label && html`<text x=${edge.x} y=${edge.y}>${short(visible(edge.label))}</text>`}</g>`)}
      ${drawn.nodes.map(
        (node) => html`<g key=${node.id} class=${`node ${states.get(node.id) ?? ""} ${chosen === node.id ? "chosen" : ""}`} transform=${`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`} onClick=${onChoose && (() => onChoose(node.id))}>
          <title>${`${visible(node.id)} (${visible(node.type)})`}</title>
          <rect width=${WIDTH} height=${HEIGHT} rx="8" />
          <text x="12" y="20">${short(named(node.name ?? node.id))}</text>
          <text x="12" y="36" class="type">${visible(node.type)}${states.has(node.id) ? ` · ${states.get(node.id)}` : ""}</text>
        </g>`,
      )}
    </svg>
    <details><summary>As a table</summary>
      <table><thead><tr><th>Step</th><th>Type</th><th>Goes on with</th></tr></thead>
        <tbody>${nodes.map((node) => html`<tr key=${node.id}><td>${visible(node.id)}</td><td>${visible(node.type)}</td>
          <td>${edges.filter((edge) => edge.from === node.id).map((edge) => `${edge.label ? `${visible(edge.label)}: ` : ""}${visible(edge.to)}`).join(", ") || "–"}</td></tr>`)}</tbody></table>
    </details>
  </figure>`;
}

/** @param {GraphNode[]} nodes @param {GraphEdge[]} edges */
function place(nodes, edges) {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 30, ranksep: 42, marginx: 10, marginy: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  const keys = new Map(nodes.map((node, n) => [node.id, `n${n}`])); // dagre stumbles over steps such as "constructor"
  for (const key of keys.values()) graph.setNode(key, { width: WIDTH, height: HEIGHT });
  edges.forEach((/** @type {GraphEdge} */ edge, /** @type {number} */ n) => {
    if (keys.has(edge.from) && keys.has(edge.to)) graph.setEdge(keys.get(edge.from), keys.get(edge.to), { edge }, String(n));
  });
  layout(graph);
  const { width = 10, height = 10 } = graph.graph();
  return {
    width: Math.max(Number.isFinite(width) ? width : 10, 10),
    height: Math.max(Number.isFinite(height) ? height : 10, 10),
    nodes: nodes.map((node) => ({ ...node, ...graph.node(keys.get(node.id)) })),
    edges: graph.edges().map((/** @type {any} */ key) => {
      const { points, edge } = graph.edge(key);
      const middle = points[Math.floor(points.length / 2)];
      const path = points.map((/** @type {any} */ point, /** @type {number} */ n) => `${n ? "L" : "M"}${point.x.toFixed(1)},${point.y.toFixed(1)}`).join(" ");
      return { key: `${key.v}→${key.w}#${key.name}`, path, label: edge.label, x: middle.x + 4, y: middle.y };
    }),
  };
}
