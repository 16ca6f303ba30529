// Values as text for people. Nothing here makes HTML: all that sources say is shown in text nodes.

// Characters that hide, or turn the direction of what follows: a name with them looks like another.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Return a text with its invisible characters made visible. @param {unknown} text */
export const visible = (text) =>
  String(text).replace(HIDDEN, (c) => `⟦U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟧`);

/** Return a name, or a word in its place if it is empty or nothing but spaces. @param {unknown} text @param {string} [otherwise] */
export const named = (text, otherwise = "(no name)") => visible(text ?? "").trim() || otherwise;

/** Return a duration. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Return how long ago a moment was, or how soon it is. @param {string} at @param {number} [now] */
export function ago(at, now = Date.now()) {
  const away = now - Date.parse(at);
  const short = Math.abs(away) < 5000 ? "" : duration(Math.abs(away)).split(" ").slice(0, 2).join(" ");
  return !short ? "now" : away > 0 ? `${short} ago` : `in ${short}`;
}

/** Return a moment in the browser's zone. @param {string} at */
export const localTime = (at) =>
  new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Return a moment in the browser's zone as an axis tells it: a day at its beginning, else a time. @param {number} seconds @param {number} step of the axis */
export function shortTime(seconds, step) {
  const at = new Date(seconds * 1000);
  const isDay = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
  return isDay
    ? at.toLocaleDateString(undefined, { day: "numeric", month: "short" })
    : at.toLocaleTimeString(undefined, { timeStyle: step < 60 ? "medium" : "short" });
}

/** Return a moment in UTC. @param {string} at */
export const utcTime = (at) => `${new Date(at).toISOString().replace("T", " ").slice(0, 19)} UTC`;

/** Return a number with separators. @param {number | null | undefined} n */
export const count = (n) => (n === null || n === undefined ? "–" : n.toLocaleString());

/** Return the address of a link that may be followed, null for any but http and https. @param {unknown} text */
export function webAddress(text) {
  if (typeof text !== "string" || text.length > 2000 || !/^https?:\/\//i.test(text)) return null;
  try {
    const url = new URL(text);
    return url.username || url.password ? null : url;
  } catch {
    return null;
  }
}
