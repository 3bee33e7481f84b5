"""`dflash-agent skill`, and slash commands without the screen: every run is a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.llama import FakeLlama, calls, say


class Desk:
    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        for folder in (self.home, self.project / ".git"):
            folder.mkdir(parents=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        home = str(self.home)
        env = {"PATH": os.environ["PATH"], "HOME": home, "DFLASH_HOME": f"{home}/dflash", "LANG": "C.UTF-8"}
        argv = [sys.executable, "-P", "-m", "agent", *arguments]
        nothing = subprocess.DEVNULL
        return subprocess.run(
            argv, env=env, cwd=self.project, stdin=nothing, capture_output=True, text=True, timeout=60
        )

    def write(self, place: str, text: str) -> Path:
        file = self.project / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def skill(self, name: str, body: str = "Do it.", front: str = "") -> Path:
        text = f"---\nname: {name}\ndescription: Use for {name}, whenever.\n{front}---\n{body}\n"
        return self.write(f".agents/skills/{name}/SKILL.md", text).parent


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_new_skill_is_good_is_listed_and_can_be_shown(desk: Desk) -> None:
    made = desk.run("skill", "new", "tell-time", "--description", 'Says: "now". Use when asked for the time.')
    assert made.returncode == 0 and "/skills trust" in made.stdout
    assert "description: " in desk.run("skill", "show", "tell-time").stdout
    checked = desk.run("skill", "check", "tell-time")
    assert checked.returncode == 0 and "tell-time: good" in checked.stdout and "no engine runs" in checked.stdout
    listed = json.loads(desk.run("skill", "list", "--json").stdout)
    assert [s["status"] for s in listed["skills"] if s["name"] == "tell-time"] == ["untrusted"]
    assert sum(s["scope"] == "bundled" for s in listed["skills"]) == 10


def test_a_skill_of_the_user_needs_no_trust(desk: Desk) -> None:
    desk.run("skill", "new", "mine", "--user")
    assert "mine             user" in desk.run("skill", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new", "Bad_Name"], "try bad-name"),
        (["new", "there"], "exists already"),
        (["new", "x", "--description", "d" * 1025], "1024 at most"),
        (["show", "nothing"], "There is no skill named 'nothing'. There are: "),
        (["check", "nothing"], "There is no skill named"),
        (["check", "there", "--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(desk: Desk, arguments: list[str], says: str) -> None:
    desk.run("skill", "new", "there")
    done = desk.run("skill", *arguments)
    assert done.returncode in (1, 2) and says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "says", "code"),
    [
        ("no front matter", ":1: error: no front matter", 1),
        ("---\nname: one\n---\nx", ":1: error: the description is missing", 1),
        ("---\nname: One\ndescription: Use when asked for one thing.\n---\nx", ":2: error: the name has capitals", 1),
        ("---\nname: two\ndescription: Use when asked for one thing.\n---\nx", "must be that of the folder", 1),
        ("---\nname: one\ndescription: " + "d" * 1025 + "\n---\nx", "1025 characters, 1024 at most", 1),
        ("---\nname: one\ndescription: a: b: use when asked for c\n---\nx", ":3: error: not valid YAML", 1),
        ("---\nname: one\ndescription: Use when asked for one thing.\n---\n", "there is no text", 1),
        (
            "---\nname: one\ndescription: Use when asked for one thing.\n---\n\nSee [x](references/x.md).",
            ":6: error: references/x.md is not there",
            1,
        ),
        (
            "---\nname: one\ndescription: Use when asked for one thing.\n---\nRun `scripts/run.sh`.",
            ":5: error: scripts/run.sh is not there",
            1,
        ),
        (
            "---\nname: one\ndescription: Use when asked for one thing.\nmetadata: x\n---\nx",
            ":4: error: metadata must map",
            1,
        ),
        (
            "---\nname: one\ndescription: Use when asked for one thing.\ncompatibility: " + "c" * 501 + "\n---\nx",
            "1 to 500 characters",
            1,
        ),
        ("---\nname: one\ndescription: short\n---\nx", ":3: warning: the description is too short", 0),
        ("---\nname: one\ndescription: It renames pictures by their date.\n---\nx", "does not say when", 0),
        ("---\nname: one\ndescription: Use when asked for one thing.\ncolour: red\n---\nx", "field colour is not", 0),
        ("---\nname: one\ndescription: Use when asked for one thing.\n---\n" + "word " * 5000, "about 6249 tokens", 0),
        ("---\nname: one\ndescription: Use when asked for one thing.\n---\nx", "no check list", 0),
        ("---\nname: one\ndescription: Use when asked for one thing.\n---\n[x](../../y)", "leads out of the skill", 0),
    ],
)
def test_a_check_names_the_line_of_each_fault(desk: Desk, text: str, says: str, code: int) -> None:
    file = desk.write("skills/one/SKILL.md", text)
    done = desk.run("skill", "check", str(file.parent))
    assert says in done.stdout, done.stdout + done.stderr
    assert done.returncode == code


def test_a_check_asks_the_model_which_skill_it_would_choose(desk: Desk) -> None:
    folder = desk.skill("tide", "Do it.\n## Check list\n- [ ] done")
    prompts = [("when is high tide", True), ("sea level tonight", True), ("can I swim at six", True), ("hello", False)]
    (folder / "evals").mkdir()
    (folder / "evals" / "eval_queries.json").write_text(
        json.dumps([{"query": query, "should_trigger": wanted} for query, wanted in prompts])
    )
    chosen = calls(("skill", {"name": "tide"}))
    with FakeLlama([chosen, calls(("skill", {"name": "debug"})), chosen, say("Hello!")], n_ctx=32_768) as server:
        done = desk.run("skill", "check", "tide", "--server", server.url)
    assert "chose debug, should choose this one: sea level tonight" in done.stdout
    assert "rightly for 3 of 4" in done.stdout and done.returncode == 0
    assert [r["messages"][-1]["content"] for r in server.requests] == [query for query, _ in prompts]
    assert "- tide: Use for tide" in server.requests[0]["messages"][0]["content"]
    with FakeLlama([say("no")] * 4) as server:
        assert desk.run("skill", "check", "tide", "--server", server.url).returncode == 1


def test_a_model_that_does_not_answer_is_told_from_one_that_chooses_wrongly(desk: Desk) -> None:
    desk.skill("tide")
    prompts = [{"query": f"tide {n}", "should_trigger": True} for n in range(4)]
    desk.write(".agents/skills/tide/evals/eval_queries.json", json.dumps(prompts))
    chosen = calls(("skill", {"name": "tide"}))
    with FakeLlama([chosen, say("hm", hold=True), chosen], n_ctx=32_768) as server:
        done = desk.run("skill", "check", "tide", "--server", server.url, "--timeout", "2")
    assert done.returncode == 1 and len(server.requests) == 2  # the rest is not asked
    assert "no answer to prompt 2 of 4 within 2 s; --timeout SECONDS" in done.stdout


# ---- without the screen
def headless(desk: Desk, server: FakeLlama, prompt: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return desk.run("--server", server.url, *flags, "-p", prompt)


def test_a_prompt_that_names_a_skill_starts_it(desk: Desk) -> None:
    desk.skill("tide", "Find the tide for $ARGUMENTS.")
    with FakeLlama([say("high at six")]) as server:
        done = headless(desk, server, "/tide Lisbon", "--trust")
    assert (done.returncode, done.stdout) == (0, "high at six\n")
    sent = server.requests[-1]["messages"][-1]["content"]
    assert "Find the tide for Lisbon." in sent and "The user's message: /tide Lisbon" in sent
    assert "tide" in desk.run("session", "list").stdout.splitlines()[0]


def test_without_trust_a_projects_skills_and_commands_are_left_out_and_stderr_says_which(desk: Desk) -> None:
    desk.skill("tide")
    desk.write(".claude/commands/review.md", "Look.")
    with FakeLlama([say("hello")]) as server:
        done = headless(desk, server, "hi")
        assert (
            "not trusted: skill tide; command /review. --trust includes them" in done.stderr
            and done.stdout == "hello\n"
        )
        assert "tide" not in server.requests[-1]["messages"][0]["content"].replace(str(desk.project), "")
        refused = headless(desk, server, "/tide now")
    assert refused.returncode == 2 and "There is no command /tide; there are:" in refused.stderr


def test_trust_given_by_command_lasts_until_something_changes(desk: Desk) -> None:
    folder = desk.skill("tide")
    with FakeLlama([say("one"), say("two")]) as server:
        assert "1 of this folder count" in headless(desk, server, "/skills trust").stdout
        assert "tide             project" in headless(desk, server, "/skills").stdout
        (folder / "more.sh").write_text("rm -rf ~")
        assert "tide             not trusted" in headless(desk, server, "/skills").stdout
    assert server.requests == []


def test_a_custom_command_takes_arguments_and_keeps_to_its_tools(desk: Desk) -> None:
    desk.write(
        ".dflash/commands/web/deploy.md",
        "---\ndescription: Deploy\nargument-hint: [where]\nallowed-tools: Read\n---\nDeploy to $1 for $ARGUMENTS.",
    )
    with FakeLlama([calls(("bash", {"command": "touch made"})), say("refused")]) as server:
        done = headless(desk, server, "/web:deploy 'the moon' now", "--trust", "--permission-mode", "auto")
    assert done.returncode == 0
    first = server.requests[0]["messages"][-1]["content"]
    assert first == "Deploy to the moon for 'the moon' now."
    assert "keeps to read" in server.requests[1]["messages"][-1]["content"] and not (desk.project / "made").exists()


def test_commands_of_the_product_come_before_custom_ones_and_those_before_skills(desk: Desk) -> None:
    desk.write(".claude/commands/skills.md", "mine")
    desk.write(".claude/commands/debug.md", "my way of debugging")
    with FakeLlama([say("ok")]) as server:
        assert "scaffold-cli" in headless(desk, server, "/skills", "--trust").stdout
        headless(desk, server, "/debug", "--trust")
    assert server.requests[-1]["messages"][-1]["content"] == "my way of debugging"


def test_init_asks_for_what_the_repository_shows(desk: Desk) -> None:
    desk.write("package.json", '{"scripts": {"test": "vitest run"}}')
    desk.write("Makefile", "all: x\nlint:\n\techo\n")
    desk.write("pyproject.toml", '[project]\nname = "shop"\n[tool.ruff]\n')
    with FakeLlama([say("written")]) as server:
        headless(desk, server, "/init in French")
        desk.write("AGENTS.md", "old")
        headless(desk, server, "/init")
    first, second = (r["messages"][-1]["content"] for r in server.requests)
    for words in ("npm run test = vitest run", "Makefile targets: all, lint", "package shop", "in French"):
        assert words in first
    assert f"Write {desk.project / 'AGENTS.md'}" in first
    assert "AGENTS.md exists: read it" in second


def test_a_folder_below_gives_its_instructions_with_the_first_file_read(desk: Desk) -> None:
    desk.write("AGENTS.md", "top rules")
    desk.write("web/AGENTS.md", "use tabs")
    desk.write("web/a.js", "let a\n")
    desk.write("web/b.js", "let b\n")
    reads = [calls(("read", {"file": f"web/{n}.js"})) for n in "ab"]
    with FakeLlama([*reads, say("ok")]) as server:
        headless(desk, server, "look")
    assert "top rules" in server.requests[0]["messages"][0]["content"]
    assert "use tabs" in server.requests[1]["messages"][-1]["content"]
    assert "use tabs" not in server.requests[2]["messages"][-1]["content"]


def test_one_odd_file_is_told_once_and_stops_nothing(desk: Desk) -> None:
    desk.skill("tide", front="argument-hint: [a] [b]\n")
    with FakeLlama([say("ok")]) as server:
        done = headless(desk, server, "hi", "--trust")
    assert done.stdout == "ok\n" and "SKILL.md:4: not valid YAML" in done.stderr
