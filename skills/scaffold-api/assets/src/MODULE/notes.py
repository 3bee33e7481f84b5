"""The routes of one kind of thing. Copy this file for the next kind, and include its router in app.py."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, status

from MODULE.models import NewNote, Note
from MODULE.store import Store

router = APIRouter(prefix="/notes", tags=["notes"])


def get_store(request: Request) -> Store:
    return request.app.state.store


StoreOf = Annotated[Store, Depends(get_store)]


@router.get("")
def list_notes(store: StoreOf) -> list[Note]:
    return store.all()


@router.post("", status_code=status.HTTP_201_CREATED)
def add_note(new: NewNote, store: StoreOf) -> Note:
    return store.add(new)


@router.get("/{note_id}")
def get_note(note_id: int, store: StoreOf) -> Note:
    note = store.get(note_id)
    if note is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no note {note_id}.")
    return note


@router.delete("/{note_id}", status_code=status.HTTP_204_NO_CONTENT)
def delete_note(note_id: int, store: StoreOf) -> None:
    if not store.delete(note_id):
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no note {note_id}.")
