"""What goes over the wire. Limits stand here, so that bad input is refused before any code of ours runs."""

from pydantic import BaseModel, Field


class NewNote(BaseModel):
    title: str = Field(min_length=1, max_length=200)
    text: str = ""


class Note(NewNote):
    id: int
