import pytest
from fastapi.testclient import TestClient

from MODULE.app import create_app


@pytest.fixture
def client() -> TestClient:
    return TestClient(create_app())


def test_the_service_is_healthy(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}


def test_a_note_that_was_added_is_there(client: TestClient) -> None:
    added = client.post("/notes", json={"title": "Milk"})
    assert added.status_code == 201
    assert client.get(f"/notes/{added.json()['id']}").json()["title"] == "Milk"
    assert len(client.get("/notes").json()) == 1


def test_a_note_without_a_title_is_refused(client: TestClient) -> None:
    assert client.post("/notes", json={"title": ""}).status_code == 422


def test_a_note_that_is_not_there_is_404(client: TestClient) -> None:
    assert client.get("/notes/7").status_code == 404
    assert client.delete("/notes/7").status_code == 404


def test_a_deleted_note_is_gone(client: TestClient) -> None:
    note = client.post("/notes", json={"title": "Milk"}).json()
    assert client.delete(f"/notes/{note['id']}").status_code == 204
    assert client.get("/notes").json() == []
