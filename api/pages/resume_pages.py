"""The pages of a resume URL: a step's question with a form for the answer, and the result.

They load nothing, run nothing, and show everything from a run as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from api.pages.resume_forms import Answer, FormField
from language.expressions.values import compact_json

STYLE = """:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #56606b; --line: #c5ccd5;
  --page: #f1f3f6; --card: #fff; --accent: #0b57b0; --on-accent: #fff; --wrong: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe3e8; --quiet: #9aa4af; --line: #434b55;
  --page: #14171a; --card: #1e2328; --accent: #7db4f5; --on-accent: #0d1b2b; --wrong: #ff9d94; } }
* { box-sizing: border-box; }
body { font: 17px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--page); }
main { max-width: 36rem; margin: 0 auto; padding: 1.5rem; min-height: 100vh; background: var(--card); }
@media (min-width: 40rem) { main { margin: 4rem auto; padding: 2rem 2.5rem 2.5rem; min-height: 0;
  border: 1px solid var(--line); border-radius: 12px; } }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .25rem 0 1rem; overflow-wrap: anywhere; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); font-size: .9rem; margin: .25rem 0 0; }
.message { white-space: pre-wrap; }
.wrong { color: var(--wrong); font-size: .9rem; margin: .25rem 0 0; }
form { margin-top: 1.5rem; }
fieldset, .field { border: 0; margin: 0 0 1.25rem; padding: 0; min-width: 0; }
legend, .field > label { display: block; font-weight: 600; margin: 0 0 .35rem; padding: 0;
  overflow-wrap: anywhere; }
fieldset label { display: flex; gap: .6rem; align-items: baseline; padding: .6rem .75rem; margin: 0 0 .4rem;
  border: 1px solid var(--line); border-radius: 8px; cursor: pointer; overflow-wrap: anywhere; }
input[type=text], textarea, select { width: 100%; font: inherit; color: inherit; background: transparent;
  padding: .6rem .75rem; border: 1px solid var(--line); border-radius: 8px; }
select { background: var(--card); }
textarea { min-height: 6rem; resize: vertical; display: block; }
textarea.json { font: 15px/1.45 ui-monospace, monospace; }
button { font: inherit; font-weight: 600; color: var(--on-accent); background: var(--accent); border: 0;
  border-radius: 8px; padding: .75rem 1.5rem; cursor: pointer; }
@media (max-width: 40rem) { button { width: 100%; } }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
    "Vary": "Accept",
}
"""Headers of each page: nothing may be loaded, run, framed, stored or sent to others."""

_MOST_BUTTONS = 6
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>{style}</style>
<title>{title}</title>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


class Html(str):
    """Text that is HTML already, made by `tag`."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | bool) -> Html:
    """Make an element, and escape its attributes and all content that is not HTML yet.

    Args:
        name: of the element.
        content: the content of the element.
        attributes: True has no value, False is left out; a `_` at the end of a name is dropped.
    """
    shown = "".join(
        f" {key.rstrip('_')}" if value is True else f' {key.rstrip("_")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not False
    )
    if name in ("input", "br"):
        return Html(f"<{name}{shown}>")
    inner = "".join(one if isinstance(one, Html) else escape(one) for one in content)
    return Html(f"<{name}{shown}>{inner}</{name}>")


class Question(NamedTuple):
    """The question of a page.

    Attributes:
        workflow: the name of the workflow.
        title: one line.
        message: further text; may be empty.
        has_begun: whether the run has reached the step, so that its question is known.
    """

    workflow: str
    title: str
    message: str
    has_begun: bool


def form_page(question: Question, fields: Iterable[FormField], answer: Answer, action: str) -> str:
    """Make the page with the form.

    Args:
        question: the question.
        fields: of the form.
        answer: an earlier submission with its errors; empty at first.
        action: the target of the form, relative to the page.
    """
    parts = [tag("p", question.workflow, class_="quiet"), tag("h1", question.title)]
    if question.message:
        parts.append(tag("p", question.message, class_="message"))
    if not question.has_begun:
        note = "The run has not come to this question yet. You may answer now, or open this page again later."
        parts.append(tag("p", note, class_="quiet"))
    if answer.errors:
        parts.append(tag("p", "Nothing was sent: see below.", class_="wrong", role="alert"))
    if "" in answer.errors:
        parts.append(tag("p", answer.errors[""], class_="wrong"))
    shown = [_field(one, answer) for one in fields]
    send = tag("button", "Send the answer", type="submit")
    parts.append(tag("form", *shown, send, method="post", action=action))
    return page(question.title, parts)


def done_page(workflow: str) -> str:
    """Make the page that confirms the answer."""
    parts = [
        tag("p", workflow, class_="quiet"),
        tag("h1", "Thank you"),
        tag("p", "Your answer has come, and the run goes on with it. You can close this page."),
    ]
    return page("Thank you", parts)


def refusal_page(title: str, message: str) -> str:
    """Make a page that says why there is nothing to answer."""
    return page(title, [tag("h1", title), tag("p", message)])


def page(title: str, parts: Iterable[str]) -> str:
    """Make a page of these elements, in the style of all pages without a script."""
    return _PAGE.format(style=STYLE, title=escape(title), content="\n".join(parts))


def _field(one: FormField, answer: Answer) -> Html:
    entered = answer.entered.get(one.key, "") if answer.entered else one.given
    below = [tag("p", one.hint, class_="quiet", id=f"{one.key}-hint")] if one.hint else []
    if one.key in answer.errors:
        below.append(tag("p", answer.errors[one.key], class_="wrong"))
    label = one.label if one.required else f"{one.label} (optional)"
    if one.choices and len(one.choices) <= _MOST_BUTTONS:
        return tag("fieldset", tag("legend", label), *_buttons(one, entered), *below)
    control = _select(one, entered) if one.choices else _input(one, entered)
    return tag("div", tag("label", label, for_=one.key), control, *below, class_="field")


def _buttons(one: FormField, entered: str) -> list[Html]:
    texts = {str(n): _choice(choice) for n, choice in enumerate(one.choices)}
    if not one.required:
        texts[""] = "No answer"
    return [
        tag(
            "label",
            tag(
                "input", type="radio", name=one.key, value=value, checked=entered == value,
                required=one.required,
            ),
            tag("span", text),
        )
        for value, text in texts.items()
    ]  # fmt: skip


def _select(one: FormField, entered: str) -> Html:
    options = [
        tag("option", _choice(choice), value=str(n), selected=entered == str(n))
        for n, choice in enumerate(one.choices)
    ]
    return tag(
        "select", tag("option", "", value=""), *options, id=one.key, name=one.key, required=one.required
    )


def _input(one: FormField, entered: str) -> Html:
    described = f"{one.key}-hint" if one.hint else False
    if one.kind == "number" or (one.kind == "text" and not one.is_long):
        return tag(
            "input", type="text", id=one.key, name=one.key, value=entered, required=one.required,
            inputmode="decimal" if one.kind == "number" else False, autocomplete="off",
            **{"aria-describedby": described},
        )  # fmt: skip
    # A browser drops the first line break of a textarea.
    return tag(
        "textarea", f"\n{entered}", id=one.key, name=one.key, required=one.required,
        class_="json" if one.kind == "json" else False, **{"aria-describedby": described},
    )  # fmt: skip


def _choice(value: object) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return value if isinstance(value, str) else "None" if value is None else compact_json(value)  # pyright: ignore[reportArgumentType]
