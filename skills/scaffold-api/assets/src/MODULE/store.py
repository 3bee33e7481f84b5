"""Where things are kept: in memory, until a database is wanted. The routes know only these four methods."""

from MODULE.models import NewNote, Note


class Store:
    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}
        self._next = 1

    def all(self) -> list[Note]:
        return list(self._notes.values())

    def add(self, new: NewNote) -> Note:
        note = Note(id=self._next, **new.model_dump())
        self._notes[note.id] = note
        self._next += 1
        return note

    def get(self, note_id: int) -> Note | None:
        return self._notes.get(note_id)

    def delete(self, note_id: int) -> bool:
        return self._notes.pop(note_id, None) is not None
