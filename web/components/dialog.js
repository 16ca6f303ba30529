// A modal dialog: the browser keeps the focus inside, and Escape closes it.

import { html, useEffect, useRef } from "../vendor/preact.js";

/** @param {{ title: string, onClose: () => void, children?: any }} props */
export function Dialog({ title, onClose, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    const field = element.current?.querySelector("input, select, textarea");
    if (field instanceof HTMLElement) field.focus();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  return html`<dialog ref=${element} onClose=${onClose} aria-label=${title}>
    <header><h2>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${onClose}>✕</button></header>
    ${children}
  </dialog>`;
}
