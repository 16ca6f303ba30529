"""Quad9: names of malware, phishing and botnets are withheld."""

from __future__ import annotations

from providers.domain import filtered

SOURCE = filtered.source("quad9", "Quad9", page="https://quad9.net", base_url="dns://9.9.9.9,dns://9.9.9.10")
