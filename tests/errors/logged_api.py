"""An API process for the tests of its log, with a route that has a bug. Its argument is its port."""

import sys

import uvicorn
from fastapi import APIRouter

import logs
import settings
from api.app import create_app
from api.http.protocol import BoundedHttp
from api.http.strict_route import StrictRoute

router = APIRouter(route_class=StrictRoute)


@router.post("/api/bug")
async def bug() -> None:
    raise LookupError("the reason of the bug")


@router.get("/api/wrong-answer")
async def wrong_answer() -> list[int]:
    return ["canary-in-an-answer"]  # type: ignore[list-item]


def main() -> None:
    """Be the API."""
    logs.configure("api")
    app = create_app(settings.load())
    app.include_router(router)
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), http=BoundedHttp, log_config=None, access_log=False
    )
