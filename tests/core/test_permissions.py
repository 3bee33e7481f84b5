"""Who may do what without being asked: mode by kind by place by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.permissions import MODES, Mode, decide
from agent.core.rules import Rule, Rulebook, Verdict, offer
from agent.errors import ConfigError
from agent.protocols import Access, Plan

ROOT, HOME = "/home/me/project", "/home/me"


def book(**texts: list[str]) -> Rulebook:
    rules = [Rule.parse(v, t, "test", root=ROOT, home=HOME) for v in ("deny", "ask", "allow") for t in texts.get(v, [])]
    return Rulebook(rules, root=ROOT, home=HOME)


def file(act: Any, path: str = f"{ROOT}/src/a.py", *, outside: bool = False) -> Plan:
    kind = "read" if act == "read" else "edit"
    return Plan(kind, path, (path,), outside=outside, accesses=(Access(act, path, outside=outside),))


def command(*lines: str, harmless: bool = False, unclear: str = "") -> Plan:
    used = tuple(Access("run", line, (line,), harmless=harmless) for line in lines)
    return Plan("execute", lines[0], command=" && ".join(lines), accesses=used, unclear=unclear)


KINDS = {
    "read": ("read", file("read"), file("read", "/etc/hosts", outside=True)),
    "edit": ("edit", file("edit"), file("edit", "/etc/hosts", outside=True)),
    "run": ("bash", command("make"), None),
    "look": ("bash", command("ls", harmless=True), None),
    "use": ("mcp__a__b", Plan("other", "b"), None),
}
# for each mode: without a rule, inside; without a rule, outside; an ask rule; an allow rule; that rule outside
TABLE: dict[str, dict[Mode, tuple[str, str, str, str, str]]] = {
    "read": {
        "ask": ("allow", "ask", "ask", "allow", "allow"),
        "accept-edits": ("allow", "ask", "ask", "allow", "allow"),
        "plan": ("allow", "ask", "ask", "allow", "allow"),
        "auto": ("allow", "ask", "ask", "allow", "allow"),
    },
    "edit": {
        "ask": ("ask", "ask", "ask", "allow", "ask"),
        "accept-edits": ("allow", "ask", "ask", "allow", "ask"),
        "plan": ("deny", "deny", "deny", "deny", "deny"),
        "auto": ("allow", "ask", "ask", "allow", "ask"),
    },
    "run": {
        "ask": ("ask", "", "ask", "allow", ""),
        "accept-edits": ("ask", "", "ask", "allow", ""),
        "plan": ("deny", "", "deny", "deny", ""),
        "auto": ("allow", "", "ask", "allow", ""),
    },
    "look": {mode: ("allow", "", "ask", "allow", "") for mode in MODES},
    "use": {
        "ask": ("ask", "", "ask", "allow", ""),
        "accept-edits": ("ask", "", "ask", "allow", ""),
        "plan": ("deny", "", "deny", "deny", ""),
        "auto": ("allow", "", "ask", "allow", ""),
    },
}
RULES = {"read": "Read", "edit": "Edit", "run": "Bash", "look": "Bash", "use": "mcp__a__b"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_modes_kinds_places_and_rules(mode: Mode, kind: str) -> None:
    tool, inside, outside = KINDS[kind]
    rule = RULES[kind]
    wanted = TABLE[kind][mode]
    got = [
        decide(mode, tool, inside, book()).verdict,
        decide(mode, tool, outside, book()).verdict if outside else "",
        decide(mode, tool, inside, book(ask=[rule], allow=[rule])).verdict,
        decide(mode, tool, inside, book(allow=[rule])).verdict,
        decide(mode, tool, outside, book(allow=[rule])).verdict if outside else "",
    ]
    assert tuple(got) == wanted
    for plan in filter(None, (inside, outside)):
        denied = decide(mode, tool, plan, book(deny=[rule], ask=[rule], allow=[rule]))
        assert (denied.verdict, denied.by) == ("deny", "rule")
        assert rule in denied.why


@pytest.mark.parametrize(
    ("rule", "line", "fits"),
    [
        ("Bash(npm run build)", "npm run build", True),
        ("Bash(npm run build)", "npm run build --watch", False),
        ("Bash(git status:*)", "git status", True),
        ("Bash(git status:*)", "git status -s", True),
        ("Bash(git status:*)", "git statusx", False),
        ("Bash(git *)", "git push", True),
        ("Bash(git *)", "gitk", False),
        ("Bash(npm * build)", "npm run build", True),
        ("Bash(npm * build)", "npm run build x", False),
        (r"Bash(rm \*.o)", "rm *.o", True),
        (r"Bash(rm \*.o)", "rm -rf / x.o", False),
        ("Bash(*)", "anything", True),
        ("Bash", "anything", True),
        ("Read", "cat x", False),
    ],
)
def test_a_command_rule_covers(rule: str, line: str, fits: bool) -> None:
    assert Rule.parse("allow", rule, "", root=ROOT, home=HOME).covers("bash", Access("run", line)) is fits


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("Read(.env)", f"{ROOT}/.env", True),
        ("Read(.env)", f"{ROOT}/a/b/.env", True),
        ("Read(.env)", "/etc/.env", True),
        ("Read(.env)", f"{ROOT}/x.env", False),
        ("Read(*.pem)", f"{ROOT}/certs/a.pem", True),
        ("Read(~/.ssh)", f"{HOME}/.ssh/id", True),
        ("Read(~/.ssh)", f"{HOME}/.ssh", True),
        ("Read(~/.ssh)", f"{ROOT}/.ssh", False),
        ("Read(/src/**)", f"{ROOT}/src/a/b.py", True),
        ("Read(/src/*.py)", f"{ROOT}/src/a/b.py", False),
        ("Read(//etc/*)", "/etc/hosts", True),
        ("Read(//etc)", f"{ROOT}/etc", False),
        ("Read(build/)", f"{ROOT}/a/build/x", True),
        ("Read(*.{a,b})", f"{ROOT}/x.b", True),
        ("Read([!x]y)", f"{ROOT}/ay", True),
        ("Read([!x]y)", f"{ROOT}/xy", False),
    ],
)
def test_a_path_rule_covers(rule: str, path: str, fits: bool) -> None:
    assert Rule.parse("deny", rule, "", root=ROOT, home=HOME).covers("read", Access("read", path)) is fits


def test_a_rule_about_a_server_covers_its_tools() -> None:
    rule = Rule.parse("allow", "mcp__files", "", root=ROOT, home=HOME)
    assert rule.covers("mcp__files__read", Access("use", ""))
    assert not rule.covers("mcp__filesystem__read", Access("use", ""))
    assert Rule.parse("allow", "mcp__files__*", "", root=ROOT, home=HOME).covers("mcp__files__x", Access("use", ""))


@pytest.mark.parametrize("text", ["", "Bash(", "(x)", "a b", "Bash)x("])
def test_what_is_no_rule_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no rule"):
        Rule.parse("allow", text, "", root=ROOT, home=HOME)


def test_each_part_of_a_command_must_pass() -> None:
    rules = book(allow=["Bash(npm:*)"])
    assert decide("ask", "bash", command("npm test"), rules).verdict == "allow"
    ruling = decide("ask", "bash", command("npm test", "make"), rules)
    assert (ruling.verdict, ruling.offers) == ("ask", ("Bash(make)",))


def test_a_denied_part_denies_the_whole_in_every_mode() -> None:
    for mode in MODES:
        assert decide(mode, "bash", command("ls", "rm x", harmless=True), book(deny=["Bash(rm:*)"])).verdict == "deny"


def test_what_cannot_be_understood_asks_and_in_auto_only_where_a_rule_could_speak_of_it() -> None:
    plan = command("$X", unclear="hidden")
    assert decide("ask", "bash", plan, book(allow=["Bash"])).verdict == "ask"
    assert decide("auto", "bash", plan, book()).verdict == "allow"
    assert decide("auto", "bash", plan, book(deny=["Bash(rm:*)"])).verdict == "ask"


def test_a_rule_of_the_product_yields_to_the_users_own_about_that_file_only() -> None:
    builtin = Rule.parse("deny", "Read(.env)", "secrets", root=ROOT, home=HOME, builtin=True)
    plan = file("read", f"{ROOT}/.env")
    for mine, verdict in (("Read(/.env)", "allow"), ("Read", "deny"), ("Read(/other)", "deny")):
        rules = Rulebook([builtin, Rule.parse("allow", mine, "me", root=ROOT, home=HOME)], root=ROOT, home=HOME)
        assert decide("ask", "read", plan, rules).verdict == verdict


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("npm test", "Bash(npm test:*)"),
        ("npm run build --x", "Bash(npm run build:*)"),
        ("uv run evil.py", "Bash(uv run evil.py:*)"),
        ("uv run --with x y", "Bash(uv run --with x y)"),
        ("git commit -m 'x y'", "Bash(git commit:*)"),
        ("git -c a=b status", "Bash(git -c a=b status)"),
        ("pytest -q tests", "Bash(pytest:*)"),
        ("rm -rf build", "Bash(rm -rf build)"),
        ("rm *.o", r"Bash(rm \*.o)"),
        ("python3 x.py", "Bash(python3 x.py)"),
        ("/usr/bin/rm x", "Bash(/usr/bin/rm x)"),
        ("A=1 make", "Bash(A=1 make)"),
    ],
)
def test_the_narrowest_useful_rule_is_offered(line: str, rule: str) -> None:
    access = Access("run", line)
    assert offer("bash", access, ROOT) == rule
    assert Rule.parse("allow", rule, "", root=ROOT, home=HOME).covers("bash", access)


@pytest.mark.parametrize(
    "line", ["npx vite", "git config user.name x", "git bisect run ./x", "tar xf a.tar", "uvx ruff"]
)
def test_a_command_that_runs_what_its_words_say_is_offered_alone(line: str) -> None:
    assert offer("bash", Access("run", line), ROOT) == f"Bash({line})"


def test_an_offered_rule_about_an_odd_file_covers_that_file_only() -> None:
    access = Access("edit", f"{ROOT}/a[1]*.txt")
    rule = Rule.parse("allow", offer("edit", access, ROOT), "", root=ROOT, home=HOME)
    assert rule.covers("edit", access)
    assert not rule.covers("edit", Access("edit", f"{ROOT}/a1x.txt"))


def test_what_is_granted_holds_and_can_be_taken_back() -> None:
    kept: list[str] = []

    def keep(texts: Any) -> str:
        kept.extend(texts)
        return "always in this project"

    rules = Rulebook([], root=ROOT, home=HOME, keep=keep, forget=lambda rule: kept.remove(rule.text))
    rules.grant(["Bash(make:*)"], always=False)
    assert decide("ask", "bash", command("make x"), rules).verdict == "allow"
    assert kept == []
    rules.grant(["Bash(ls:*)"], always=True)
    assert kept == ["Bash(ls:*)"]
    for rule in list(rules):
        rules.remove(rule)
    assert kept == []
    assert decide("ask", "bash", command("make x"), rules).verdict == "ask"


def test_a_rule_that_cannot_be_kept_holds_for_the_session() -> None:
    def keep(_texts: Any) -> str:
        raise ConfigError("no room")

    rules = Rulebook([], root=ROOT, home=HOME, keep=keep)
    with pytest.raises(ConfigError):
        rules.grant(["Bash(make:*)"], always=True)
    assert decide("ask", "bash", command("make x"), rules).verdict == "allow"


def test_edits_of_a_session_are_waved_through_together_and_kept_one_by_one() -> None:
    ruling = decide("ask", "edit", file("edit"), book())
    assert ruling.offers == ("Edit(/src/a.py)",)
    assert ruling.session_offers == ("Edit",)


def test_a_command_that_leaves_its_bounds_is_asked_in_every_mode_whatever_is_allowed() -> None:
    plan = replace(command("ls", harmless=True), outside=True)
    for mode in ("ask", "accept-edits", "auto"):
        assert decide(mode, "bash", plan, book(allow=["Bash"])).verdict == "ask"


def test_what_always_asks_offers_no_rule() -> None:
    verdict: Verdict = "ask"
    ruling = decide("auto", "edit", file("edit", "/etc/hosts", outside=True), book(allow=["Edit(//etc/hosts)"]))
    assert (ruling.verdict, ruling.offers) == (verdict, ())
    assert "/etc/hosts" in ruling.why
