// Calls the public API with the session's cookie. Every refusal becomes an ApiError, which pages show as it is.

import { askPassword } from "./components/password.js";

/** @typedef {{ pointer?: string, parameter?: string, code: string, message: string }} FieldProblem */

/** A refusal of the API, or a server that cannot be reached. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no answer
   * @param {{ code: string, title?: string, detail: string, errors?: FieldProblem[], type?: string, request_id?: string }} problem
   */
  constructor(status, problem) {
    super(problem.detail);
    this.status = status;
    this.problem = problem;
  }
}

/**
 * Send a request, and return the JSON of its answer.
 *
 * A session that has ended leads to the sign-in page. Where the API wants the password again, it is asked for.
 *
 * @param {string} method
 * @param {string} path with its query string
 * @param {unknown} [body]
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, options = {}) {
  const response = await send(method, path, body, options);
  if (response.status === 204) return null;
  const text = await response.text();
  const content = text && isJson(response) ? JSON.parse(text) : null;
  if (response.ok) return content ?? text;
  const problem = content?.code
    ? content
    : { code: "unexpected_answer", detail: `The server answered ${response.status} without a reason. It may be older, or a proxy in between.` };
  if (response.status === 401) leave();
  if (problem.code === "password_required" && (await askPassword())) return call(method, path, body, options);
  throw new ApiError(response.status, problem);
}

/** Go to the sign-in page, and from there back to this one. */
export function leave() {
  location.assign(`/app/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal] */
export const get = (path, query = {}, signal) => call("GET", withQuery(path, query), undefined, { signal });

/** @param {string} path @param {unknown} [body] */
export const post = (path, body) => call("POST", path, body);

/** @param {string} path @param {Record<string, unknown>} query */
export function withQuery(path, query) {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return known.length ? `${path}?${new URLSearchParams(known.map(([name, value]) => [name, String(value)]))}` : path;
}

async function send(/** @type {string} */ method, /** @type {string} */ path, /** @type {unknown} */ body, /** @type {any} */ options) {
  const headers = { Accept: "application/json", ...options.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, { method, headers, signal: options.signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { code: "unreachable", detail: "The service does not answer. It may be stopped, or the network is down; this page asks again by itself." });
  }
}

const isJson = (/** @type {Response} */ response) => /[/+]json\b/.test(response.headers.get("Content-Type") ?? "");
