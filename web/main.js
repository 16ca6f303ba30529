// The frame that all pages have: navigation, connection, and the page that the address names.

import { Component, html, render, useEffect, useState } from "./vendor/preact.js";
import { ApiError, call, get, leave } from "./api.js";
import { Empty, Problem } from "./components/basics.js";
import { PasswordDialog } from "./components/password.js";
import { visible } from "./format.js";
import { connection, listen } from "./live.js";
import { followLinks, lookedUp, place } from "./router.js";

/** The pages: the pattern of the address, the module, and the name in the navigation if it stands there. */
const PAGES = [
  { path: /^\/app$/, module: "home", name: "Home" },
  { path: /^\/app\/runs$/, module: "runs", name: "Runs" },
  { path: /^\/app\/runs\/([0-9a-f-]{36})$/, module: "run" },
  { path: /^\/app\/errors$/, module: "errors", name: "Errors" },
  { path: /^\/app\/workflows$/, module: "workflows", name: "Workflows" },
  { path: /^\/app\/workflows\/([0-9a-f-]{36})$/, module: "workflow" },
  { path: /^\/app\/monitors$/, module: "monitors", name: "Monitors" },
  { path: /^\/app\/monitors\/([0-9a-f-]{36})$/, module: "monitor" },
  { path: /^\/app\/lookup$/, module: "lookup", name: "Lookup" },
  { path: /^\/app\/approvals$/, module: "approvals", name: "Approvals" },
  { path: /^\/app\/chat$/, module: "chat", name: "Assistant" },
  { path: /^\/app\/account$/, module: "account", name: "Account" },
];

const NOT_THERE = { code: "unreachable", detail: "This page could not be loaded. The service may be stopped, or the network is down." };

/** Shows what went wrong in a page's script instead of nothing at all. */
class Boundary extends Component {
  /** @param {any} error */
  componentDidCatch(error) {
    this.setState({ error });
  }
  /** @param {any} before */
  componentDidUpdate(before) {
    if (before.at !== this.props.at && this.state.error) this.setState({ error: null });
  }
  /** @param {any} props @param {any} state */
  render(props, state) {
    return state.error ? html`<${Problem} error=${state.error} retry=${() => this.setState({ error: null })} />` : props.children;
  }
}

function Page() {
  const { path, query } = place.value;
  const found = PAGES.find((page) => page.path.test(path));
  const [loaded, setLoaded] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!found) return;
    let current = true;
    import(`/app/assets/pages/${found.module}.js`).then(
      (module) => current && setLoaded({ name: found.module, Page: module.Page }),
      (error) => current && setLoaded({ name: found.module, error: error instanceof TypeError ? new ApiError(0, NOT_THERE) : error }),
    );
    return () => {
      current = false;
    };
  }, [found?.module]);
  if (!found) return html`<${Empty} title="There is no such page"><p><a href="/app">To the first page</a></p><//>`;
  if (loaded?.name !== found.module) return html`<p class="quiet" aria-busy="true">Loading …</p>`;
  if (loaded.error) return html`<${Problem} error=${loaded.error} retry=${() => location.reload()} />`;
  const id = path.match(found.path)?.[1];
  return html`<${Boundary} at=${path}><${loaded.Page} key=${id ?? path} id=${id} query=${query} /><//>`;
}

function Navigation() {
  const { path } = place.value;
  return html`<nav aria-label="Pages">
    <a class="mark" href="/app"><img src="/app/assets/icon.svg" alt="" width="20" height="20" /> vedette</a>
    ${PAGES.filter((page) => page.name).map((page) => {
      const to = page.module === "home" ? "/app" : `/app/${page.module}`;
      const here = to === "/app" ? path === to : path === to || path.startsWith(`${to}/`);
      return html`<a href=${to} aria-current=${here ? "page" : undefined}>${page.name}</a>`;
    })}
    <a href="/docs/" target="_blank">Docs</a>
  </nav>`;
}

/** The pages beside which one can ask: what they show, by the kinds that the assistant knows. */
const BESIDE = /** @type {Record<string, string>} */ ({ run: "run", monitor: "monitor", workflow: "workflow" });

/** The assistant beside a page; it knows what is open there. */
function Beside() {
  const { path } = place.value;
  const [open, setOpen] = useState(false);
  const [Chat, setChat] = useState(/** @type {any} */ (null));
  const page = PAGES.find((one) => one.path.test(path));
  const kind = BESIDE[page?.module ?? ""];
  const about = kind ? { kind, id: path.match(page?.path ?? "")?.[1] ?? "" } : page?.module === "lookup" ? lookedUp.value : undefined;
  useEffect(() => {
    if (open) import("./components/chat.js").then((module) => setChat(() => module.Chat));
  }, [open]);
  if (about === undefined) return null;
  return html`<div class="beside"><button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Close the assistant" : "Ask the assistant"}</button>
    ${open && html`<aside aria-label="Assistant">${Chat ? html`<${Chat} key=${path} about=${about} />` : html`<p class="quiet" aria-busy="true">Loading …</p>`}</aside>`}</div>`;
}

function Connection() {
  if (connection.value !== "lost") return null;
  return html`<p class="lost" role="status">The connection is lost. This page may be out of date; it updates when the connection is back.</p>`;
}

function SignedIn() {
  const [me, setMe] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    get("/app/session")
      .then(({ signed_in }) => (signed_in ? get("/api/auth/me") : leave()))
      .then((found) => {
        if (!found) return;
        setMe(found);
        listen();
      }, setError);
  }, []);
  const signOut = async () => {
    await call("DELETE", "/app/session");
    location.assign("/app/sign-in");
  };
  if (error) return error.status === 401 ? null : html`<main><${Problem} error=${error} retry=${() => location.reload()} /></main>`;
  if (!me) return html`<p class="quiet" aria-busy="true">Loading …</p>`;
  return html`<a class="skip" href="#main">To the content</a>
    <header class="bar"><${Navigation} />
      <span class="who">${visible(me.user.email)} <button type="button" class="plain" onClick=${signOut}>Sign out</button></span>
    </header>
    ${!isSecureContext && html`<p class="lost" role="status">This page came over plain http: whoever is on the way can read along. Use https.</p>`}
    <${Connection} />
    <main id="main" tabindex="-1"><${Page} /></main>
    <${Beside} />
    <${PasswordDialog} />`;
}

followLinks();
const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(html`<${SignedIn} />`, root);
}
