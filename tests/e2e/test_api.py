# SPDX-License-Identifier: BSD-3-Clause
"""What the API tells and takes while real guests move."""
import pytest

from lab import Events, Move, wait_for

pytestmark = pytest.mark.versions("7.2", long=["10.0"])

SLOW = 20 << 20
STATES = ["preparing", "connecting", "setup", "precopy", "pre-switchover",
          "switchover", "committing", "completing", "completed"]


def test_events_tell_the_whole_story(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    here, there = Events(a), Events(b)
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=2 * SLOW)
    shown = move.wait_end()
    for events in (here, there):
        events.wait(lambda e=events: "completed" in e.states(move.id), "end")
    assert here.states(move.id) == STATES
    # the destination's own, in the table's order
    told = there.states(move.id)
    assert told[-1] == "completed"
    assert told == [state for state in STATES if state in told]
    numbers = [number for number, _ in here.of("migration")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    last = here.of("migration")[-1][1]["migration"]
    assert last["totals"] == shown["totals"] and last["result"] == "completed"
    progress = [data["migration"]["progress"]["percent"]
                for number, data in here.of("progress") if number is None]
    assert progress and progress == sorted(progress)
    # whoever comes back gets what it has missed, and nothing twice
    again = Events(a, after=numbers[4])
    again.wait(lambda: "completed" in again.states(move.id), "replay")
    assert [n for n, _ in again.of("migration")] == numbers[5:]
    assert not again.of("gap")
    for events in (here, there, again):
        events.close()
    # a daemon that has been restarted says that it cannot know
    a.stop()
    a.start()
    later = Events(a, after=numbers[-1])
    assert later.of("hello")[0][0] > numbers[-1]
    later.wait(lambda: later.of("gap"), "gap")
    assert later.of("gap")[0][1]["after"] == numbers[-1]
    later.close()
    # the restarted daemon begins to count anew, the other one has all of it
    assert "migproxy_wire_bytes_total{direction=\"sent\"} 0\n" in metrics(a)
    text = metrics(b)
    assert ("migproxy_migrations_total{role=\"destination\",result="
            "\"completed\"} 1\n") in text
    received = int(text.split("{direction=\"received\"} ")[1].split()[0])
    assert received > 64 << 20
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


def metrics(daemon):
    status, text = daemon.api("GET", "/metrics")
    assert status == 200
    return text


def test_limits_change_on_the_way(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    before = source.qmp.command("query-migrate-parameters")["downtime-limit"]
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=SLOW // 8, max_downtime_ms=7)
    move.wait_state("precopy")
    events = Events(a)

    def downtime():
        return source.qmp.command("query-migrate-parameters")["downtime-limit"]

    assert downtime() == 7
    done = a.ctl("set", move.id, "--max-downtime", "1234", "--json")
    assert done.status == 0, done.stderr
    events.wait(lambda: any(
        data["migration"]["limits"]["max_downtime_ms"] == 1234
        for _, data in events.of("migration")), "new downtime")
    assert done.json["limits"]["max_downtime_ms"] == 1234
    wait_for("QEMU's new limit", lambda: downtime() == 1234, 5)
    path = f"/v1/migrations/{move.id}"
    for body, text in (({}, "no limit is given"),
                       ({"bandwidth_bytes_per_second": 0}, "0 is neither"),
                       ({"timeout_seconds": 5}, "unknown member")):
        status, answer = a.api("PATCH", path, body or {"": None})
        assert status == 400, answer
        assert text in answer["error"]["message"] or not body
    status, answer = b.api("PATCH", path, {"max_downtime_ms": 5})
    assert (status, answer["error"]["class"]) == (422, "unsupported")
    # nothing would end within the deadline at the first rate
    done = a.ctl("set", move.id, "--bandwidth", "unlimited")
    assert done.status == 0 and "bandwidth unlimited" in done.stdout
    shown = move.wait_end()
    assert shown["result"] == "completed", shown
    assert shown["limits"] == {"bandwidth_bytes_per_second": "unlimited",
                               "max_downtime_ms": 1234}
    # what was set on the way is put back like everything else
    assert downtime() == before
    status, answer = a.api("PATCH", path, {"max_downtime_ms": 5})
    assert (status, answer["error"]["class"]) == (409, "too-late")
    # the same request again is the same migration, in spite of the changes
    status, answer = a.api("POST", "/v1/migrations", move.body)
    assert status == 200, answer
    events.close()
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


def test_a_waiting_qemu_is_announced(lab):
    """No path is named by the peer, which may not, nor found by template."""
    a, b = lab.daemons_pair(start=False)
    b.peers["A"]["allow"] = "send receive"
    for daemon in (a, b):
        daemon.start()
    source, destination = lab.pair()
    body = {"vm": source.vm, "to": "B", "qmp": str(source.qmp_path),
            "mode": "precopy"}

    def refused(**more):
        status, answer = a.api("POST", "/v1/migrations", {**body, **more})
        assert status == 201, answer
        return _end(a, answer["id"])["error"]

    named = refused(dest_qmp=str(destination.qmp_path))
    assert named["class"] == "forbidden" and "name-paths" in named["message"]
    status, answer = b.api("POST", "/v1/incoming", {
        "vm": source.vm, "qmp": "/somewhere/else.qmp"})
    assert (status, answer["error"]["class"]) == (422, "path-refused")
    assert str(lab.directory) in answer["error"]["message"]

    wrong = "00000000-0000-0000-0000-000000000001"
    said = {"vm": source.vm, "qmp": str(destination.qmp_path)}
    status, answer = b.api("POST", "/v1/incoming", {**said, "uuid": wrong})
    assert status == 201, answer
    other = refused()
    assert other["class"] == "mismatch" and other["side"] == "destination"
    assert wrong in other["message"]
    uuid = source.qmp.command("query-uuid")["UUID"]
    assert uuid in other["message"]

    # said anew, with the right one; in capitals, as some write them
    done = b.ctl("incoming", "--vm", source.vm, "--qmp", destination.qmp_path,
                 "--uuid", uuid.upper())
    assert done.status == 0, done.stderr
    status, answer = b.api("GET", "/v1/incoming")
    assert [(e["vm"], e["uuid"]) for e in answer["incoming"]] == [
        (source.vm, uuid)]
    # naming what was announced anyway needs no right
    status, answer = a.api("POST", "/v1/migrations", {
        **body, "dest_qmp": str(destination.qmp_path)})
    shown = _end(a, answer["id"])
    assert shown["result"] == "completed", shown
    # it has its guest: nothing is waited for any more
    assert b.api("GET", "/v1/incoming") == (200, {"incoming": []})
    assert b.api("DELETE", "/v1/incoming/i1")[0] == 404
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)


def _end(daemon, migration):
    move = Move.__new__(Move)
    move.daemon, move.id = daemon, migration
    return move.wait_end()


def test_watch_follows_to_the_end(lab):
    a, b = lab.daemons_pair()
    source, destination = lab.pair()
    everything = a.ctl_start("watch")
    move = Move(a, source, destination, "B", mode="precopy",
                bandwidth_bytes_per_second=2 * SLOW)
    move.wait_state("precopy")  # B knows of it by now
    done = b.ctl("watch", move.id)
    assert done.status == 0, done.stderr
    assert "completed" in done.stdout.lower()
    move.wait_end()
    everything.kill()
    lines = everything.log()
    for state in ("setup", "precopy", "switchover", "completed"):
        assert state in lines, lines
    assert f"{move.id}  {source.vm} to B" in lines
    lab.guest.assert_only_on(destination, idle=[source])
    lab.finish(destination)
