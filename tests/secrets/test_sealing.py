"""Sealed values that are not whole."""

import pytest

from sealing import Keyring, UnsealError


@pytest.mark.parametrize("length", [0, 1, 9, 12, 20, 30])
def test_a_value_that_was_cut_off_does_not_open(keyring: Keyring, length: int) -> None:
    sealed = keyring.seal("test", b"something to keep")
    with pytest.raises(UnsealError):
        keyring.open("test", sealed[:length])
