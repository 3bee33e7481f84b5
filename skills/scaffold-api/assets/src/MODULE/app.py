"""The web service. `create_app` makes a new one with its own store, so that tests do not share data."""

from fastapi import FastAPI

from MODULE import __version__, notes
from MODULE.store import Store


def create_app(store: Store | None = None) -> FastAPI:
    app = FastAPI(title="NAME", version=__version__)
    app.state.store = store or Store()
    app.include_router(notes.router)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return app
