"""The validation of e-mail addresses: whether they can receive mail, checked without sending any."""
