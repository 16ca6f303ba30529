"""The tree of the commands: who imports this has made it, and so have those who are forked from it."""

from cli import command_tree

command_tree()
