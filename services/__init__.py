"""Use cases of more than one model, without FastAPI: the layer that routes and the command line share."""
