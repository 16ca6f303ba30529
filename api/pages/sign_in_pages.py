"""The pages of signing in: forms that need no script."""

from __future__ import annotations

from api.pages.resume_pages import HEADERS as PAGE_HEADERS
from api.pages.resume_pages import page, tag

HEADERS = {**PAGE_HEADERS, "Referrer-Policy": "same-origin"}
"""Without a referrer browsers call the origin of a form `null`, and it could not be checked."""

_PLAIN = (
    "This page came over plain http: whoever is on the way can read your password and your session."
    " Use https, or open it on the machine itself."
)


def sign_in_page(*, problem: str = "", email: str = "", target: str = "", is_secure: bool) -> str:
    """Make the form for e-mail and password.

    Args:
        problem: why it is shown again.
        email: as it was entered before.
        target: the page to go on to.
        is_secure: whether nobody can listen.
    """
    parts = [tag("p", "vedette", class_="quiet"), tag("h1", "Sign in")]
    if not is_secure:
        parts.append(tag("p", _PLAIN, class_="wrong"))
    if problem:
        parts.append(tag("p", problem, class_="wrong", role="alert"))
    form = [
        tag(
            "div",
            tag("label", "E-mail", for_="email"),
            tag("input", type="text", inputmode="email", id="email", name="email", value=email, required=True,
                autocomplete="username", autofocus=not email),
            class_="field",
        ),
        tag(
            "div",
            tag("label", "Password", for_="password"),
            tag("input", type="password", id="password", name="password", required=True,
                autocomplete="current-password", autofocus=bool(email)),
            class_="field",
        ),
        tag("input", type="hidden", name="next", value=target),
        tag("button", "Sign in", type="submit"),
    ]  # fmt: skip
    parts.append(tag("form", *form, method="post", action="/app/session"))
    note = (
        "The first account's e-mail and password stand in first-account.json in the data folder."
        " On the machine itself, `vedette sign-in` prints a link that signs in once."
    )
    parts.append(tag("p", note, class_="quiet"))
    return page("Sign in", parts)


def link_page(token: str, *, is_secure: bool) -> str:
    """Make the page of a link that signs in once. Chats open it for a preview, which changes nothing."""
    parts = [tag("p", "vedette", class_="quiet"), tag("h1", "Sign in by this link")]
    if not is_secure:
        parts.append(tag("p", _PLAIN, class_="wrong"))
    form = [tag("input", type="hidden", name="link", value=token), tag("button", "Sign in", type="submit")]
    parts.append(tag("form", *form, method="post", action="/app/session"))
    parts.append(tag("p", "The link is good for a minute, and once.", class_="quiet"))
    return page("Sign in", parts)


def refused_page(message: str) -> str:
    """Make the page that says why nobody was signed in."""
    back = tag("p", tag("a", "Sign in with e-mail and password", href="/app/sign-in"))
    return page("Not signed in", [tag("h1", "Not signed in"), tag("p", message), back])
