"""The reasons for which a source gives no answer; with some of them an answer still counts as whole."""

from __future__ import annotations

from typing import Literal

Reason = Literal["failed", "limited", "no_key", "no_data", "quota", "not_set_up", "bulk_use"]
"""The reason why a source gave no answer.

It failed, it was over a limit, it has no key, its data is not on this machine, its quota was used up until
the run had to end, it never had the key that it needs, or its terms allow no bulk use in a commercial
service.
"""

NOT_PARTIAL: frozenset[Reason] = frozenset({"not_set_up", "bulk_use"})
"""The reasons that do not make an answer partial: the installation cannot give a more complete one."""

WHY = (
    "Why: it `failed`, was `limited`, has `no_key` or `no_data`, its `quota` was used up, it is `not_set_up`,"
    " or its terms allow no `bulk_use`."
)
