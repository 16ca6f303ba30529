// Asks for the password again, before keys and secrets are changed.

import { html, signal } from "../vendor/preact.js";
import { Dialog } from "./dialog.js";

const asking = signal(/** @type {((given: boolean) => void) | null} */ (null));
const refused = signal("");

/** Ask for the password; resolves to whether it was right. @returns {Promise<boolean>} */
export const askPassword = () => new Promise((resolve) => (asking.value = resolve));

/** @param {boolean} given */
function finish(given) {
  refused.value = "";
  asking.value?.(given);
  asking.value = null;
}

async function submit(/** @type {SubmitEvent} */ event) {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const password = new FormData(form).get("password");
  const response = await fetch("/app/session/proof", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ password }),
  });
  if (response.ok) finish(true);
  else refused.value = (await response.json()).detail;
}

/** The dialog; one in the whole page. */
export function PasswordDialog() {
  if (!asking.value) return null;
  return html`<${Dialog} title="Your password, please" onClose=${() => finish(false)}>
    <form onSubmit=${submit}>
      <p>To change keys or secrets, or to export, enter your password. It counts for five minutes.</p>
      <label>Password <input type="password" name="password" autocomplete="current-password" required /></label>
      ${refused.value && html`<p class="wrong" role="alert">${refused.value}</p>`}
      <div class="actions"><button type="submit" class="primary">Go on</button></div>
    </form>
  <//>`;
}
