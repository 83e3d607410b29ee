# SPDX-License-Identifier: BSD-3-Clause
"""One migration through two daemons, by the API."""
import itertools

from .wait import wait_for

# of an error: what both ends say alike
STORY = ("class", "message", "side")
ORDER = ["preparing", "connecting", "setup", "precopy", "pre-switchover",
         "switchover", "committing", "postcopy", "completing"]
MOVE_S = 60
_numbers = itertools.count(1)


class Move:
    """Begins at once. body: members of POST /v1/migrations.

    A postcopy comes to postcopy: on a busy host QEMU (7.2, 10.0) may take its
    first pass for so fast that all the rest fits into the usual downtime.
    """

    def __init__(self, daemon, source, destination, peer, **body):
        self.daemon = daemon
        self.source = source
        self.destination = destination
        if body.get("mode") == "postcopy":
            body.setdefault("max_downtime_ms", 1)
        body = {"id": f"move-{next(_numbers)}", "vm": source.vm, "to": peer,
                "qmp": str(source.qmp_path),
                "dest_qmp": str(destination.qmp_path), **body}
        self.body = body
        self.id = body["id"]
        self.status, self.answer = daemon.api("POST", "/v1/migrations", body)

    def show(self, daemon=None):
        status, answer = (daemon or self.daemon).api(
            "GET", f"/v1/migrations/{self.id}")
        assert status == 200, answer
        return answer

    def wait_state(self, state, seconds=MOVE_S):
        """Until it is in that state, or beyond it."""
        def reached():
            shown = self.show()
            if shown["result"] or shown["state"] in ("cancelling",
                                                         "undoing"):
                return shown
            return (shown if ORDER.index(shown["state"])
                    >= ORDER.index(state) else None)
        return wait_for(f"state {state} of {self.id}", reached, seconds,
                        lambda: self.show())

    def wait_end(self, seconds=MOVE_S, daemon=None):
        def ended():
            shown = self.show(daemon)
            return shown if shown["result"] else None
        return wait_for(f"end of {self.id}", ended, seconds,
                        lambda: self.show(daemon))

    def wait_end_both(self, other, seconds=MOVE_S):
        """The last word of both ends."""
        return self.wait_end(seconds), self.wait_end(seconds, other)

    def wait_same_story(self, other, seconds=10):
        """Until both ends, which have ended, say the same class, words and
        side: what could not be told at once is told later. Returns them."""
        def told():
            here, there = (self.show(daemon)["error"]
                           for daemon in (self.daemon, other))
            same = here and there and all(here[member] == there[member]
                                          for member in STORY)
            return here if same else None
        return wait_for(f"one story of {self.id}", told, seconds,
                        lambda: (self.show(), self.show(other)))

    def cancel(self, daemon=None):
        return (daemon or self.daemon).api(
            "POST", f"/v1/migrations/{self.id}/cancel")

    def postcopy(self):
        return self.daemon.api("POST", f"/v1/migrations/{self.id}/postcopy")
