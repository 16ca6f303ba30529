"""The assistant's conversations: their messages, events, approvals, and the consent of an account."""
