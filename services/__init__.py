"""Use cases of more than one model, without FastAPI: what routes and the command line share."""
