// Makes the vendored modules from the packages that package-lock.json pins, and manifest.json with their hashes.
//
//     npm ci --ignore-scripts && node build.mjs [folder to write to]

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const target = process.argv[2] ?? here;

/** What each module gives to ours. */
const MODULES = {
  "preact.js": [
    'export { h, render, Fragment, Component, createRef } from "preact";',
    'export { useEffect, useLayoutEffect, useRef, useState, useMemo, useCallback, useId } from "preact/hooks";',
    'export { signal, computed, effect, batch, useSignal, useComputed, useSignalEffect } from "@preact/signals";',
    'import { h } from "preact"; import htm from "htm"; export const html = htm.bind(h);',
  ],
  "uplot.js": ['export { default as uPlot } from "uplot";'],
  "dagre.js": ['import dagre from "@dagrejs/dagre"; export const { graphlib, layout } = dagre;'],
};

const packages = JSON.parse(readFileSync(join(here, "package.json"), "utf8")).dependencies;
const manifest = { packages, modules: {} };
for (const [name, lines] of Object.entries(MODULES)) {
  const made = await build({
    stdin: { contents: lines.join("\n"), resolveDir: here },
    bundle: true,
    format: "esm",
    minify: true,
    legalComments: "inline",
    target: "es2022",
    write: false,
  });
  const text = made.outputFiles[0].contents;
  writeFileSync(join(target, name), text);
  manifest.modules[name] = { bytes: text.length, sha256: createHash("sha256").update(text).digest("hex") };
}
writeFileSync(join(target, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
