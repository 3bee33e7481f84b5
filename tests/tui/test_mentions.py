"""Mentions and prompts as the user meets them: the whole product on its screen, with a real MCP server."""

from __future__ import annotations

import json
import time
from pathlib import Path

from agent.tui.composer import Composer
from tests.fakes.llama import say
from tests.tools.mcp.conftest import kind
from tests.tui.test_skills import Screen, screen


def with_everything(tmp_path: Path, servers: Path) -> None:
    (tmp_path / "project").mkdir(exist_ok=True)
    node, server = servers / "bin" / "node", servers / "node_modules" / ".bin" / "mcp-server-everything"
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    entry = {"command": str(node), "args": [str(server), "stdio"]}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": {"all": entry}}))


def menu(shown: Screen) -> list[str]:
    widget = shown.app.screen.query_one(Composer).menu
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)] if widget.display else []


def sent(shown: Screen) -> str:
    return shown.server.requests[-1]["messages"][-1]["content"]


async def test_a_file_is_completed_behind_an_at_sign_and_goes_with_the_message(tmp_path: Path) -> None:
    source = tmp_path / "project" / "src"
    source.mkdir(parents=True)
    (source / "loader of models.py").write_text("def load(): ...\n")
    async with screen(tmp_path, say("I see.")) as shown:
        composer = shown.app.screen.query_one(Composer)
        await shown.pilot.press(*"look at @load")
        await shown.until(lambda: menu(shown) == ['▸ @"src/loader of models.py"'])
        await shown.pilot.press("enter")
        assert composer.text == 'look at @"src/loader of models.py" ' and not shown.server.requests
        await shown.pilot.press("enter")
        await shown.until(lambda: "I see." in shown.text())
        assert "Went with the message: src/loader of models.py." in shown.text() and "def load" not in shown.text()
    assert "    1\tdef load(): ..." in sent(shown)


async def test_a_folder_is_gone_into_and_a_word_without_a_fit_offers_nothing(tmp_path: Path) -> None:
    source = tmp_path / "project" / "src"
    source.mkdir(parents=True)
    (source / "a.py").write_text("")
    async with screen(tmp_path, say("ok")) as shown:
        composer = shown.app.screen.query_one(Composer)
        await shown.pilot.press(*"@sr")
        await shown.until(lambda: len(menu(shown)) == 2)
        await shown.pilot.press("down", "tab")
        assert composer.text == "@src/"
        await shown.until(lambda: menu(shown) == ["▸ @src/a.py"])
        await shown.pilot.press(*"zzz")
        await shown.until(lambda: not menu(shown))
        await shown.pilot.press("enter")  # nothing stands in its way
        await shown.until(lambda: "There is nothing named src/zzz." in shown.text())
    assert sent(shown) == "@src/zzz"


async def test_resources_are_completed_and_go_with_the_message(tmp_path: Path, servers: Path) -> None:
    with_everything(tmp_path, servers)
    async with screen(tmp_path, say("I see.")) as shown:
        await shown.until(lambda: kind(shown.parts.mcp, "all") == "ready")
        await shown.pilot.press(*"see @all:demo dynamic")  # a blank ends the mention
        assert not menu(shown)
        composer = shown.app.screen.query_one(Composer)
        composer.clear()
        await shown.pilot.press(*"see @all:")
        await shown.until(lambda: any("startup.md" in row for row in menu(shown)))
        await shown.pilot.press(*"demo://resource/dynamic/t", "tab")
        assert composer.text == "see @all:demo://resource/dynamic/text/"
        await shown.pilot.press(*"7.", "enter")
        await shown.until(lambda: "I see." in shown.text())
    assert "[resource demo://resource/dynamic/text/7]\nResource 7: This is a plaintext" in sent(shown)


async def test_a_prompt_is_completed_argument_by_argument_and_asks_for_what_is_missing(
    tmp_path: Path, servers: Path
) -> None:
    with_everything(tmp_path, servers)
    async with screen(tmp_path, say("Sunny."), say("Rainy.")) as shown:
        await shown.until(lambda: shown.parts.registry.find("mcp__all__args-prompt"))
        composer = shown.app.screen.query_one(Composer)
        await shown.pilot.press(*"/mcp__all__arg", "enter")
        assert composer.text == "/mcp__all__args-prompt "
        await shown.pilot.press("enter")
        assert composer.text == "/mcp__all__args-prompt city="
        await shown.pilot.press(*"Rome", "enter")
        await shown.until(lambda: "Sunny." in shown.text())
        assert "› /mcp__all__args-prompt city=Rome" in shown.text() and sent(shown).startswith(
            "What's weather in Rome?"
        )
        await shown.pilot.press(*"/mcp__all__args-prompt ", "escape", "enter")
        form = shown.app.chat.docks.form
        await shown.until(lambda: form.asked and form.has_focus and time.monotonic() > form._typing_until)
        await shown.pilot.press("enter", "enter")  # on to the next field, then send: the first one is needed
        assert form.asked is not None
        await shown.until(lambda: "needed" in "\n".join(form.render_line(y).text for y in range(form.size.height)))
        await shown.pilot.press(*"Oslo", "tab", "enter")
        await shown.until(lambda: "Rainy." in shown.text())
        assert sent(shown).startswith("What's weather in Oslo?") and form.asked is None and composer.has_focus
