"""The skill tool in a real session: what the model gets, once, and what the rest of the turn keeps to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agent.config.trust import Trust
from agent.core.session import Session
from agent.events import CallPlanned, PermissionSettled, ResultAdded
from agent.model.calls import LenientCalls
from agent.prompt.skillbook import SkillBook
from agent.prompt.skills import Root
from agent.protocols import CallChunk
from agent.tools.process import ProcessBook
from agent.tools.registry import build_tools
from agent.tools.skill import SkillTool
from agent.workspace.paths import Workspace
from tests.fakes.core import MemoryJournal, ScriptedModel, Step, call, calls, open_session, text


def write_skill(root: Path, name: str, body: str = "Do it.\n## Check list\n- [ ] It is done.", front: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Use for {name}.\n{front}---\n{body}\n")
    return folder


def session_with(tmp_path: Path, *replies: list[Step], **options: Any) -> tuple[Session, MemoryJournal]:
    sessions: list[Session] = []
    trust = Trust(tmp_path / "trust.json", everything=True)
    book = SkillBook([Root(tmp_path / "skills", "user")], trust, lambda: "Facts: none.", 32_768)
    tool = SkillTool(book, lambda t: bool(sessions) and sessions[0].holds(t))
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    workspace = Workspace(project, lent=(tmp_path / "skills",))
    tools = build_tools(workspace, os.environ, tmp_path / "logs", ProcessBook(), tool)
    journal = MemoryJournal()
    session = open_session(ScriptedModel(*replies), *tools, journal=journal, reader=LenientCalls(), **options)  # type: ignore[arg-type]
    sessions.append(session)
    return session, journal


def skill_call(name: str, number: int = 0) -> list[Step]:
    return calls(CallChunk(0, f"c{number}", "skill", json.dumps({"name": name})))


async def run(session: Session, *prompts: str) -> None:
    for prompt in prompts:
        session.submit(prompt)
        await session.idle()
    await session.close()


def results(journal: MemoryJournal) -> list[ResultAdded]:
    return [e for e in journal.events if isinstance(e, ResultAdded)]


async def test_a_skill_comes_once_and_the_user_sees_its_check_list(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "one")
    session, journal = session_with(tmp_path, skill_call("one"), skill_call("one", 1), text("done"), mode="ask")
    await run(session, "go")
    first, second = results(journal)
    assert "Do it." in first.text and first.display == "Loaded one\n☐ It is done."
    assert "Do it." not in second.text and "stands above already" in second.text
    assert {e.by for e in journal.events if isinstance(e, PermissionSettled)} == {"mode"}


async def test_a_skill_that_was_edited_meanwhile_comes_again(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "one", "OLD")
    session, journal = session_with(tmp_path, skill_call("one"), text("ok"), skill_call("one", 1), text("done"))
    session.submit("first")
    await session.idle()
    write_skill(tmp_path / "skills", "one", "NEW")
    await run(session, "second")
    assert "OLD" in results(journal)[0].text and "NEW" in results(journal)[1].text


async def test_a_skill_written_in_the_session_is_found_and_an_unknown_one_is_answered_with_what_is_near(
    tmp_path: Path,
) -> None:
    session, journal = session_with(tmp_path, skill_call("release-note"), skill_call("release-notes", 1), text("ok"))
    write_skill(tmp_path / "skills", "release-notes")
    await run(session, "go")
    wrong, right = results(journal)
    assert wrong.failed and "Near to it: release-notes" in wrong.text
    assert not right.failed


async def test_an_empty_name_lists_all(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "one")
    session, journal = session_with(tmp_path, calls(call("skill", "c0")), text("ok"))
    await run(session, "go")
    assert "- one: Use for one." in results(journal)[0].text


async def test_files_of_a_skill_are_read_without_a_question_and_written_only_with_one(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", "one")
    (folder / "notes.md").write_text("secret way\n")
    file = str(folder / "notes.md")
    session, journal = session_with(
        tmp_path,
        calls(call("read", "c0", file=file)),
        calls(call("edit", "c1", file=file, find="secret", replace="open")),
        calls(call("read", "c2", file=str(tmp_path / "trust.json"))),
        text("ok"),
        mode="auto",
        can_ask=False,
    )
    await run(session, "go")
    read, edited, elsewhere = results(journal)
    assert "secret way" in read.text
    assert edited.failed and elsewhere.failed
    assert (folder / "notes.md").read_text() == "secret way\n"


async def test_allowed_tools_take_away_until_the_next_message_and_never_give(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "look", front="allowed-tools: Read Bash(git:*)\n")
    session, journal = session_with(
        tmp_path,
        skill_call("look"),
        calls(call("write", "c1", file="a.txt", text="x"), call("bash", "c2", command="git --version; touch b")),
        calls(call("bash", "c3", command="git --version")),
        text("ok"),
        calls(call("write", "c4", file="a.txt", text="x")),
        text("ok"),
        mode="auto",
    )
    await run(session, "look", "now write")
    _, refused, compound, fitting, later = results(journal)
    assert refused.failed and "keeps to read, bash(git:*)" in refused.text
    assert compound.failed and not fitting.failed and not later.failed
    assert not (tmp_path / "project" / "b").exists()


async def test_allowed_tools_do_not_spare_a_question(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills", "free", front="allowed-tools: Bash Write\n")
    session, journal = session_with(
        tmp_path,
        skill_call("free"),
        calls(call("bash", "c1", command="touch made")),
        text("ok"),
        mode="ask",
        can_ask=False,
    )
    await run(session, "go")
    assert results(journal)[1].failed and not (tmp_path / "project" / "made").exists()
    assert [e.tool for e in journal.events if isinstance(e, CallPlanned)] == ["skill", "bash"]
