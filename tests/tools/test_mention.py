"""Files that messages mention: shown as the read tool shows them, offered as ripgrep finds them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from agent.core.mentions import spelled
from agent.core.rules import Rule, Rulebook
from agent.core.session import Session
from agent.events import Notice
from agent.tools.jobs import ProcessBook
from agent.tools.mention import OFFERED, Files
from agent.tools.registry import build_tools
from agent.workspace.paths import Workspace
from tests.fakes.core import ScriptedModel, call, calls, open_session, text


def project(folder: Path) -> Path:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "build").mkdir()
    for name, words in {
        "src/x.py": "def x():\n    return 1\n",
        "src/deep/model_loader.py": "pass\n",
        "my notes.txt": "to do\n",
        "latin.txt": "",
        ".env": "KEY=secret\n",
        ".gitignore": "build/\n",
        "build/made.py": "made\n",
    }.items():
        (folder / name).write_text(words)
    (folder / "latin.txt").write_bytes("Größe\n".encode("latin-1"))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    for age, name in enumerate(("src/x.py", "src/deep/model_loader.py", "my notes.txt", ".gitignore", "latin.txt")):
        os.utime(folder / name, (2_000_000_000 - age, 2_000_000_000 - age))
    return folder


def rules(folder: Path) -> Rulebook:
    secret = Rule.parse("deny", "Read(.env)", "secrets", root=str(folder), home="/home/x", builtin=True)
    return Rulebook([secret], root=str(folder), home="/home/x")


def opened(folder: Path, model: ScriptedModel, **options: Any) -> Session:
    workspace, book = Workspace(folder), rules(folder)
    tools = build_tools(workspace, dict(os.environ), folder / "logs", ProcessBook())
    by_name = {tool.name: tool for tool in tools}
    files = Files(workspace, by_name["read"], by_name["list"], book.hides)
    return open_session(model, *tools, rules=book, mentionable=(files,), mode="ask", **options)  # type: ignore[arg-type]


async def sent(folder: Path, words: str) -> tuple[str, str, list[Notice]]:
    """What the model got, what the user sees of it, and what the user was told."""
    model = ScriptedModel(text("done"))
    session = opened(project(folder), model)
    heard = session.subscribe()
    session.submit(words)
    await session.idle()
    await session.close()
    message = model.requests[0].messages[-1]
    notices = [event async for event in heard if isinstance(event, Notice)]
    return message.text, message.shown, notices  # type: ignore[union-attr]


async def test_a_mentioned_file_goes_with_the_message_as_read_shows_it(tmp_path: Path) -> None:
    got, shown, notices = await sent(tmp_path, "look at @src/x.py.")
    assert shown == "look at @src/x.py."
    assert got == (
        "look at @src/x.py.\n\n[The user mentions src/x.py. It holds:]\n    1\tdef x():\n    2\t    return 1"
    )
    assert [n.text for n in notices] == ["Went with the message: src/x.py."]


async def test_folders_lines_blanks_and_encodings(tmp_path: Path) -> None:
    got, _, notices = await sent(
        tmp_path, '@src/ @"my notes.txt" @latin.txt @src/x.py:2 @src/x.py#L1-L1 @build/made.py'
    )
    for part in (
        "deep/",
        "    1\tto do",
        "    1\tGröße",
        "    2\t    return 1",
        "\tmade",
        "src/x.py#L1-L1. It holds:]",
    ):
        assert part in got
    assert "[lines 1 to 1 of 2" in got and len(notices) == 1


async def test_what_cannot_go_is_said_in_a_sentence_each_and_the_words_stay(tmp_path: Path) -> None:
    words = "@src/y.py @.env @picture.png @/etc/hostname and @ada, ada@example.com"
    got, shown, notices = await sent(tmp_path, words)
    assert got == words and shown == ""
    said = [n.text for n in notices]
    assert said[0] == "There is nothing named src/y.py."
    assert "a rule forbids it: deny Read(.env)" in said[1] and "secret" not in got
    assert "PNG image" in said[2] and "outside of the project" in said[3] and len(said) == 4


async def test_a_mentioned_file_counts_as_read_and_the_prefix_only_grows(tmp_path: Path) -> None:
    edit = call("edit", file="src/x.py", find="return 1", replace="return 2")
    model = ScriptedModel(calls(edit), text("done"), text("again"))
    session = opened(project(tmp_path), model)
    session.set_mode("accept-edits")
    for words in ("change @src/x.py", "and @src/x.py now?"):
        session.submit(words)
        await session.idle()
    assert (tmp_path / "src/x.py").read_text() == "def x():\n    return 2\n"
    first, second, third = (r.messages for r in model.requests)
    assert third[: len(second)] == second and second[: len(first)] == first and "return 2" in third[-1].text
    await session.close()


async def test_many_and_large_mentions_leave_room(tmp_path: Path) -> None:
    for n in range(12):
        (tmp_path / f"long{n}.txt").write_text("a line of some length\n" * 5_000)
    got, _, notices = await sent(tmp_path, " ".join(f"@long{n}.txt" for n in range(12)))
    assert len(got) < 120_000 and "[lines 1 to 400 of 5000; go on with offset=401]" in got
    assert any("it holds enough" in n.text for n in notices)


async def test_offers_are_newest_first_and_fit_loosely(tmp_path: Path) -> None:
    session = opened(project(tmp_path), ScriptedModel())

    async def offered(written: str) -> list[str]:
        return [spelled(o.name) for o in await session.mentions.offers(written)]

    everything = await offered("")
    assert everything[:4] == ["@src/x.py", "@src/", "@src/deep/model_loader.py", "@src/deep/"]
    assert '@"my notes.txt"' in everything and "@.env" not in everything and "@build/made.py" not in everything
    assert (await offered("ml"))[0] == "@src/deep/model_loader.py"
    assert (await offered("SRC/"))[:2] == ["@src/x.py", "@src/"] and await offered("zzz") == []
    assert [o.more for o in await session.mentions.offers("src/")][:2] == [False, True]
    await session.close()


async def test_twenty_thousand_files_do_not_stop_the_loop(tmp_path: Path) -> None:
    """Counted, not timed: while the offers are looked for, the loop goes on turning."""
    for folder in range(20):
        (tmp_path / f"d{folder}").mkdir()
        for n in range(1_000):
            os.close(os.open(tmp_path / f"d{folder}" / f"file_{n}.txt", os.O_CREAT))
    files = Files(Workspace(tmp_path), None, None, lambda _path: False)  # type: ignore[arg-type]
    turns, looking = 0, asyncio.ensure_future(files.offers("file_99"))
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 50 and len(looking.result()) == OFFERED
    assert all("file_99" in o.name for o in looking.result())
