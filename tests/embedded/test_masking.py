"""No part of a database's password is ever shown, however its URL is written."""

from __future__ import annotations

import pytest

from services.operator.connections import check_database, mask_password
from settings import StartError


@pytest.mark.parametrize("password", ["hu%2Fsh", "hu/sh", "hu sh", "hu@sh", "hu:sh", "hu?sh", "hu#sh"])
async def test_a_url_is_shown_without_its_password(password: str) -> None:
    url = f"postgresql://me:{password}@127.0.0.1:9/x"
    assert mask_password(url) == "postgresql://me:***@127.0.0.1:9/x"
    with pytest.raises(StartError) as caught:
        await check_database(url)
    assert "hu" not in str(caught.value) and "sh@" not in str(caught.value)
