// What a page has asked for: kept while it is asked for again, so that nothing flickers or jumps.

import { useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { onChange } from "./live.js";

/**
 * Read a path of the API, again when what it shows has changed.
 *
 * @param {string | null} path null reads nothing
 * @param {Record<string, unknown>} [query]
 * @param {string[]} [kinds] of changes after which to read again; see live.js
 * @returns {{ data: any, error: any, loading: boolean, reload: () => void }}
 */
export function useResource(path, query = {}, kinds = []) {
  const [state, setState] = useState(/** @type {any} */ ({ data: null, error: null, loading: true }));
  const asked = useRef(/** @type {AbortController | null} */ (null));
  const key = path === null ? null : JSON.stringify([path, query]);
  const shown = useRef(/** @type {string | null} */ (null));
  const reload = useCallback(async () => {
    if (path === null) return;
    asked.current?.abort();
    const controller = (asked.current = new AbortController());
    if (shown.current !== key) setState((/** @type {any} */ before) => ({ ...before, loading: true }));
    try {
      const data = await get(path, query, controller.signal);
      shown.current = key;
      setState({ data, error: null, loading: false });
    } catch (error) {
      if (controller.signal.aborted) return;
      const stays = shown.current === key;
      setState((/** @type {any} */ before) => ({ data: stays ? before.data : null, error, loading: false }));
    }
  }, [key]);
  useEffect(() => {
    reload();
    return () => asked.current?.abort();
  }, [reload]);
  const wrong = Boolean(state.error); // then it is asked for again when the connection is back
  useEffect(() => (kinds.length || wrong ? onChange(kinds, reload) : undefined), [reload, kinds.join(), wrong]);
  return { ...state, reload };
}
