"""Foreign text stays text, and fits the width it is given."""

import pytest
from rich.cells import cell_len

from agent.messages import Timings
from agent.tui.cells.entries import entry_strips
from agent.tui.cells.paper import clean
from agent.tui.cells.stream import StreamedAnswer, answer_strips
from agent.tui.picture import Answer, Call, End, Note, Said, Thought

ODD = ["[/usr/bin]", "[bold]x", "arr[i][j] [#fff] end", "[@click=app.quit]x[/]", "[link=http://127.0.0.1/]y", "[[x]]"]
WIDE = ["中文 mixed ＡＢ", "👨‍👩‍👧 🇩🇪 ⚠️ ❤️", "مرحبا שלום", "é z̵̡̻", "u" * 500, "W" * 3000, "|a|b|\n|-|-|\n|1|2|"]


def plain(strips) -> str:
    return "\n".join(s.text for s in strips)


@pytest.mark.parametrize("text", ODD)
def test_brackets_are_never_markup(text):
    for entry in (
        Said("a", text=text),
        Answer("a", text=f"say `{text}` now"),
        Call("a", tool="bash", command=text, output=text, state="ok"),
        Note("a", text=text),
        End("a", outcome="failed", detail=text),
    ):
        assert text in plain(entry_strips(entry, 90, False)), entry


@pytest.mark.parametrize("width", [8, 20, 37, 80, 200])
@pytest.mark.parametrize("text", WIDE + ODD)
def test_no_row_is_wider_than_its_width(text, width):
    for entry in (
        Said("a", text=text),
        Thought("a", text=text),
        Answer("a", text=text),
        Call("a", tool="edit", kind="edit", title=text, preview=f"+{text}", state="ok"),
        Call("a", tool="bash", command=text, output=text, state="failed"),
    ):
        for strip in entry_strips(entry, max(width, 14), True):
            assert cell_len(strip.text) == strip.cell_length <= max(width, 14)


def test_escape_sequences_and_controls_never_reach_the_terminal():
    assert clean("a\x1b[31mred\x1b[0m \x1b]0;title\x07b\x00\x9b") == "ared b\ufffd\ufffd"
    assert clean("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert clean("safe\u202eevil\u200b") == "safe\ufffdevil"


def test_output_is_folded_after_twelve_lines():
    call = Call("a", tool="bash", command="ls", output="\n".join(f"line {n}" for n in range(40)), state="ok")
    assert "28 more lines" in plain(entry_strips(call, 80, False))
    assert "line 39" in plain(entry_strips(call, 80, True))


def test_a_megabyte_from_the_user_is_a_few_rows():
    assert len(entry_strips(Said("a", text="word " * 200_000), 80, False)) < 60


def test_a_streamed_answer_says_what_the_whole_one_says():
    text = "# Title\n\nSome *prose* here.\n\n```python\ndef f():\n\n    return [1]\n```\n\n- one\n- two\n\nEnd"
    stream = StreamedAnswer(60)
    for end in range(1, len(text) + 1):
        strips = stream.feed(text[:end])

    def words(strips):
        return plain(strips).split()

    assert words(strips) == words(answer_strips(text, 60))


@pytest.mark.parametrize("width", [20, 40, 100])
def test_what_a_command_lays_out_is_drawn_anew_for_each_width(width):
    note = Note("n", text="plain", draw=lambda room: [(("a" * room, "bold"),), (("\x1b[31mred", "faint"),)])
    strips = entry_strips(note, width, False)
    assert all(s.cell_length <= width for s in strips) and "\x1b" not in plain(strips)
    assert strips[0].cell_length >= width - 1


def test_a_compaction_is_a_line_and_unfolded_its_summary():
    end = End("c", outcome="compacted", detail="Compacted: 5 messages became a summary.", text="Files: a, b.")
    assert plain(entry_strips(end, 80, False)).strip() == "· Compacted: 5 messages became a summary."
    assert "Files: a, b." in plain(entry_strips(end, 80, True))


@pytest.mark.parametrize("outcome", ["done", "limit", "interrupted", "failed"])
def test_a_turn_says_its_figures_however_it_ends(outcome):
    spent = Timings(
        cache_n=5, prompt_n=235, prompt_ms=700.0, predicted_n=512, predicted_ms=3200.0, predicted_per_second=160.0
    )
    end = End("e", outcome=outcome, detail="The answer reached the output limit.", seconds=4.2, timings=(spent,))
    assert plain(entry_strips(end, 80, False)).rstrip().endswith("  512 tokens · 160 tok/s · cache 2% · 4 s")
    end.timings = ()
    assert ("4 s" in plain(entry_strips(end, 80, False))) == (outcome == "done")
