"""Skills and commands as the user meets them on the screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from agent.tui.app import DflashApp
from agent.tui.composer import Composer
from agent.tui.picture import Picture
from agent.wiring.options import Options
from agent.wiring.parts import Parts
from tests.fakes.llama import FakeLlama, Reply, calls, say


class Screen:
    def __init__(self, app: DflashApp, pilot: Any, parts: Parts, server: FakeLlama) -> None:
        self.app, self.pilot, self.parts, self.server = app, pilot, parts, server

    def text(self) -> str:
        transcript = self.app.chat.transcript
        return "\n".join(transcript.render_line(y).text.rstrip() for y in range(transcript.size.height))

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await self.pilot.pause(0.02)

    async def write(self, text: str) -> None:
        self.app.screen.query_one(Composer).insert(text)
        await self.pilot.pause()
        await self.pilot.press("enter")


@contextlib.asynccontextmanager
async def screen(tmp_path: Path, *replies: Reply) -> AsyncIterator[Screen]:
    project, home = tmp_path / "project", str(tmp_path / "home")
    env = {"PATH": os.environ["PATH"], "HOME": home, "DFLASH_HOME": home}
    with FakeLlama(list(replies), n_ctx=32_768) as server:
        parts = Parts(Options(project, server=server.url, mode="auto"), env, can_ask=True)
        app = DflashApp(
            parts.open_session,
            profile_label="attached",
            folder=project,
            commands=parts.registry,
            start_notes=parts.start_notes,
        )
        async with app.run_test(size=(110, 44)) as pilot:
            shown = Screen(app, pilot, parts, server)
            await shown.until(lambda: app.chat.session is not None)
            yield shown
        await parts.close()


def write_skill(tmp_path: Path, name: str, body: str = "Do it.") -> None:
    folder = tmp_path / "project" / ".agents" / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Use for {name}.\n---\n{body}\n")


async def test_a_project_with_skills_of_its_own_says_so_and_they_count_once_trusted(tmp_path: Path) -> None:
    write_skill(tmp_path, "tide", "Find the tide for $ARGUMENTS.\n## Check list\n- [ ] The hour is known.")
    async with screen(tmp_path, say("High at six.")) as shown:
        await shown.until(lambda: shown.app.chat.docks.form.display)
        await shown.pilot.press("enter")
        await shown.until(lambda: "Left out: skill tide" in shown.text())
        await shown.write("/tide Lisbon")
        await shown.until(lambda: "There is no command /tide" in shown.text())
        await shown.write("/skills trust")
        await shown.until(lambda: "1 of this folder count from now on" in shown.text())
        await shown.write("/tide Lisbon")
        await shown.until(lambda: "High at six." in shown.text())
        assert "› /tide Lisbon" in shown.text() and "Find the tide" not in shown.text()
    sent = shown.server.requests[-1]["messages"][-1]["content"]
    assert "Find the tide for Lisbon." in sent


async def test_an_ordinary_folder_says_nothing_of_skills(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with screen(tmp_path, say("hello")) as shown:
        await shown.write("hi")
        await shown.until(lambda: "hello" in shown.text())
        assert "skill" not in shown.text().lower()


async def test_a_loaded_skill_is_a_card_with_its_check_list(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with screen(tmp_path, calls(("skill", {"name": "mermaid"})), say("done")) as shown:
        await shown.write("draw")
        await shown.until(lambda: "☐ The parser says" in shown.text())
        assert "Loaded mermaid" in shown.text() and "## Steps" not in shown.text()
        assert len(shown.app.chat.picture.todo) == 3
        assert all(step.startswith("[ ] ") for step in shown.app.chat.picture.todo)


async def test_the_check_list_of_a_skill_that_the_user_starts_is_on_the_list_of_steps_also_after_a_restart(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    async with screen(tmp_path, say("drawn"), say("again")) as shown:
        await shown.write("/mermaid the login")
        await shown.until(lambda: "drawn" in shown.text())
        points = shown.app.chat.picture.todo
        assert len(points) == 3 and all(point.startswith("[ ] ") for point in points)
        assert "› /mermaid the login" in shown.text() and "☐" not in shown.text()
        await shown.write("/mermaid the logout")  # it stands in the conversation already
        await shown.until(lambda: "again" in shown.text())
        assert shown.app.chat.picture.todo == points and shown.app.chat.session is not None
        again = Picture()
        for event in shown.app.chat.session.past:
            again.apply(event)
        assert again.todo == points


async def test_skills_are_completed_behind_a_slash(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with screen(tmp_path) as shown:
        shown.app.screen.query_one(Composer).insert("/scaffold-")
        await shown.pilot.pause()
        menu = shown.app.screen.query_one(Composer).menu
        await shown.until(lambda: menu.display)
        rows = [menu.render_line(y).text for y in range(menu.size.height)]
        assert any("/scaffold-cli" in row and "command line tool" in row for row in rows)
