// The assistant: conversations, and the one that is open.

import { html, useState } from "../vendor/preact.js";
import { call } from "../api.js";
import { useResource } from "../resource.js";
import { named } from "../format.js";
import { go } from "../router.js";
import { Problem, Time } from "../components/basics.js";
import { Chat } from "../components/chat.js";

/** @param {{ query: Record<string, string> }} props */
export function Page({ query }) {
  const conversations = useResource("/api/chat/conversations", { limit: 50 });
  const [error, setError] = useState(/** @type {any} */ (null));
  const [begun, setBegun] = useState(0);
  const remove = () =>
    call("DELETE", `/api/chat/conversations/${query.id}`).then(() => {
      go("/app/chat");
      conversations.reload();
    }, setError);
  return html`<header class="title"><h1>Assistant</h1>
      <p class="actions"><button type="button" onClick=${() => { setBegun(begun + 1); go("/app/chat"); }}>New conversation</button>
        ${query.id && html`<button type="button" onClick=${remove}>Delete this one</button>`}</p></header>
    <${Problem} error=${error} />
    <div class="columns wide-first">
      <section aria-label="Conversation"><${Chat} key=${query.id ?? begun} id=${query.id} onBegin=${conversations.reload} /></section>
      <aside aria-label="Conversations"><h2>Conversations</h2>
        ${conversations.data?.conversations.length
          ? html`<ul class="needs">${conversations.data.conversations.map((/** @type {any} */ one) => html`<li key=${one.id}><a href=${`/app/chat?id=${one.id}`} aria-current=${one.id === query.id ? "page" : undefined}>${named(one.title, "(no messages yet)")}</a> <span class="quiet"><${Time} at=${one.updated_at} /></span></li>`)}</ul>`
          : html`<p class="quiet">No conversations yet. Each is kept for 30 days.</p>`}</aside>
    </div>`;
}
