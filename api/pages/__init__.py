"""Pages for people: resume forms, the reference, `/auth.md`."""
