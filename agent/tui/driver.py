"""Textual's Linux driver, with an ear for bytes that are no UTF-8: an old-style mouse report or a Latin-1 paste must
not end the program."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

READ_SIZE = 4096
POLL = 0.1  # seconds; how soon the thread notices that the program ends
_OLD_MOUSE = re.compile(rb"\x1b\[M[\x20-\xff]{3}")  # three raw bytes, of which the last two may be above 127


class TolerantDriver(LinuxDriver):
    def run_input_thread(self) -> None:
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="ignore").decode
        try:
            while not self.exit_event.is_set():
                if selector.select(POLL):
                    text = decode(_OLD_MOUSE.sub(b"", os.read(self.fileno, READ_SIZE)))
                    for event in parser.feed(text) if text else ():
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        finally:
            selector.close()
