"""The tests: the first module of theirs that is imported, here and in the processes that are forked."""

import process

process.collect_rarely()
