// What has changed in the account, told to the pages that show it.
//
// All tabs of a browser share one connection: a browser opens six to a host, and a seventh tab would hang. One
// tab holds it, which a lock decides, and passes on what it hears; when it closes, another takes over. (A shared
// worker would do the same, but browsers count its address among the scripts that `trusted-types 'none'` forbids.)
// Where there are no locks, as on plain http in a network, pages ask again while somebody looks at them.

import { signal } from "./vendor/preact.js";
import { get, leave } from "./api.js";

/** @typedef {"live" | "polling" | "lost"} Connection */

export const connection = signal(/** @type {Connection} */ ("polling"));

const POLL_MS = 5000;
const GATHER_MS = 400;
const RETRY_MS = 5000;
// A heartbeat comes every 15 seconds: a server that lets two pass is frozen, or out of reach.
const SILENT_MS = 40_000;

/** @type {Map<() => void, Set<string>>} */
const listeners = new Map();
/** @type {Set<string>} */
let gathered = new Set();
let timer = 0;

/** Call `listener` when something of these kinds has changed. @param {string[]} kinds @param {() => void} listener */
export function onChange(kinds, listener) {
  listeners.set(listener, new Set(kinds));
  return () => {
    listeners.delete(listener);
  };
}

/** Tell that something has changed; calls that come together are told once. @param {Iterable<string>} kinds */
export function announce(kinds) {
  for (const kind of kinds) gathered.add(kind);
  if (!timer && gathered.size) timer = setTimeout(tell, GATHER_MS);
}

function tell() {
  timer = 0;
  if (document.hidden) return; // told when somebody looks again
  const told = gathered;
  gathered = new Set();
  for (const [listener, wanted] of [...listeners]) {
    if (told.has("all") || [...told].some((kind) => wanted.has(kind))) listener();
  }
}

/** Begin to listen. */
export function listen() {
  document.addEventListener("visibilitychange", () => announce(connection.value === "polling" ? ["all"] : []));
  if (!navigator.locks || !window.BroadcastChannel) {
    setInterval(() => document.hidden || announce(["all"]), POLL_MS);
    return;
  }
  const channel = new BroadcastChannel("vedette-live");
  channel.onmessage = ({ data }) => hear(data);
  channel.postMessage("what now?");
  const pass = (/** @type {Message} */ message) => {
    hear(message);
    channel.postMessage(message);
  };
  navigator.locks.request("vedette-live", () => {
    channel.onmessage = ({ data }) => data === "what now?" && channel.postMessage({ connection: connection.value });
    connect(pass);
    return new Promise(() => {}); // until this tab closes
  });
}

/** @typedef {{ connection?: Connection, kinds?: string[], signedOut?: boolean }} Message */

/** @param {Message} message */
function hear(message) {
  if (message.connection) {
    if (message.connection === "live" && connection.value !== "live") announce(["all"]); // perhaps something was missed
    connection.value = message.connection;
  }
  if (message.kinds) announce(message.kinds);
  if (message.signedOut) leave();
}

/** @param {(message: Message) => void} pass */
function connect(pass) {
  const source = new EventSource("/api/stream");
  const startOver = () => {
    source.close();
    pass({ connection: "lost" });
    connect(pass);
  };
  let silence = setTimeout(startOver, SILENT_MS);
  const hearing = (/** @type {(data: string) => Message} */ read) => (/** @type {Event} */ event) => {
    clearTimeout(silence);
    silence = setTimeout(startOver, SILENT_MS);
    pass(read(/** @type {MessageEvent} */ (event).data));
  };
  source.onopen = hearing(() => ({ connection: "live" }));
  source.addEventListener("heartbeat", hearing(() => ({})));
  source.addEventListener("changes", hearing((data) => ({ kinds: kindsOf(data) })));
  source.addEventListener("resync", hearing(() => ({ kinds: ["all"] })));
  source.onerror = () => {
    pass({ connection: "lost" });
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    clearTimeout(silence);
    learnWhy(pass);
  };
}

/** @param {(message: Message) => void} pass */
async function learnWhy(pass) {
  const { signed_in } = await get("/app/session").catch(() => ({ signed_in: true }));
  if (signed_in) setTimeout(connect, RETRY_MS, pass);
  else pass({ signedOut: true });
}

/** @param {string} data @returns {string[]} */
function kindsOf(data) {
  try {
    return JSON.parse(data).changes.map((/** @type {{ kind: string }} */ one) => one.kind);
  } catch {
    return ["all"];
  }
}
