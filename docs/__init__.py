"""The pages of the documentation, in Markdown: an installation has them, since the service shows them."""
