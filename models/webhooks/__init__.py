"""Webhooks: endpoints, and the deliveries of events to them."""
